(function () {
  "use strict";
  var root = document.documentElement;
  var button = document.getElementById("theme");
  function isDark() {
    var chosen = root.dataset.theme;
    return chosen ? chosen === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
  }
  function label() {
    button.textContent = isDark() ? "Light theme" : "Dark theme";
  }
  try {
    var saved = localStorage.getItem("remnant-theme");
    if (saved) root.dataset.theme = saved;
  } catch (error) {
    // a file opened from disk may have no storage
  }
  button.hidden = false;
  label();
  button.addEventListener("click", function () {
    root.dataset.theme = isDark() ? "light" : "dark";
    label();
    try {
      localStorage.setItem("remnant-theme", root.dataset.theme);
    } catch (error) {
      // the choice lasts until the page is closed
    }
  });
})();
