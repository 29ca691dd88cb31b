(function () {
  "use strict";
  var data = JSON.parse(document.getElementById("data").textContent);
  var samples = data.samples, classes = data.classes, key = "remnant-audit-" + data.run;
  var decisions = {}; // id -> {decision, label}; a label is the number of a class, or null
  var chosen = {}; // id -> label chosen in the list
  var undone = []; // what to restore, the latest last
  var current = -1; // position of the selected sample; -1: none
  var known = classes.length, OTHER = "other"; // number of classes of the run; choice of a new one
  var texts = { wrong: "wrong", right: "right", drop: "no class", skip: "skipped" };
  function element(id) { return document.getElementById(id); }
  var list = element("samples"), labels = element("label"), classFilter = element("class"), stateFilter = element("state"), suspectFilter = element("suspects"), larger = element("zoom"), other = element("other");

  function read() {
    var stored = null;
    try {
      localStorage.setItem(key + "-test", "");
      localStorage.removeItem(key + "-test");
      stored = JSON.parse(localStorage.getItem(key));
      var added = JSON.parse(localStorage.getItem(key + "-classes"));
      if (data.canDrop && Array.isArray(added)) added.forEach(function (text) { if (typeof text === "string") number(text); });
    } catch (error) {
      element("memory").hidden = false;
    }
    samples.forEach(function (sample) {
      var found = stored && stored[sample.id];
      if (!found || !Object.hasOwn(texts, found.decision)) return;
      var fits = found.decision === "skip" || (found.decision === "drop" && data.canDrop) ? found.label === null
        : Number.isInteger(found.label) && found.label >= 0 && found.label < classes.length
          && (found.label === sample.given) === (found.decision === "right");
      if (fits) decisions[sample.id] = { decision: found.decision, label: found.label };
    });
  }

  function save() {
    try {
      localStorage.setItem(key + "-classes", JSON.stringify(classes.slice(known)));
      localStorage.setItem(key, JSON.stringify(decisions));
    } catch (error) {
      element("memory").hidden = false;
    }
  }

  function add(parent, name, className, text) {
    var child = document.createElement(name);
    if (className) child.className = className;
    if (text !== undefined) child.textContent = text;
    parent.appendChild(child);
    return child;
  }

  function option(parent, value, text) {
    add(parent, "option", "", text).value = value;
  }

  // Return the number of a class, which is added if the run does not have it; -1 without a name.
  function number(text) {
    var wanted = text.trim();
    if (!wanted) return -1;
    if (classes.indexOf(wanted) < 0) classes.push(wanted);
    return classes.indexOf(wanted);
  }

  function name(sample) {
    return sample.path || "sample " + sample.id;
  }

  // Small images are embedded exactly, as PNG, and enlarged without blurring.
  function setPicture(image, sample) {
    image.src = sample.image;
    image.classList.toggle("exact", /^data:image\/png/.test(sample.image));
  }

  // A name in one line: if it is too long, its middle is left out, and its end with the suffix stays.
  function fileName(parent, text) {
    parent.textContent = "";
    var letters = Array.from(text), end = Math.max(0, letters.length - 9);
    add(parent, "span", "start", letters.slice(0, end).join(""));
    add(parent, "span", "end", letters.slice(end).join(""));
    parent.title = text;
  }

  function card(sample, position) {
    var item = add(list, "li"), button = add(item, "button", "sample");
    button.type = "button";
    button.tabIndex = -1;
    var image = null;
    if (sample.image) {
      image = add(button, "img");
      image.alt = "";
      setPicture(image, sample);
    }
    var line = add(button, "span", "labels", classes[sample.given]);
    if (sample.suggested !== sample.given) {
      add(line, "span", "arrow", " → ");
      line.appendChild(document.createTextNode(classes[sample.suggested]));
    }
    var file = add(button, "span", "small file");
    fileName(file, name(sample).split("/").pop());
    file.title = name(sample);
    var about = add(button, "span", "small about");
    if (sample.suspect) add(about, "b", "suspect", "suspect");
    add(about, "span", "score", (sample.suspect ? " " : "score ") + sample.score.toFixed(3));
    add(about, "span", "state");
    button.addEventListener("click", function (event) {
      select(position);
      if (event.target === image) zoom(true);
    });
    return button;
  }

  function state(position) {
    var found = decisions[samples[position].id];
    return found ? found.decision : "undecided";
  }

  function mark(position) {
    var found = decisions[samples[position].id], button = cards[position];
    button.dataset.state = found ? found.decision : "";
    var text = found ? texts[found.decision] : "";
    if (found && found.decision === "wrong") text += ": " + classes[found.label];
    var line = button.lastChild.lastChild;
    line.textContent = line.title = text;
  }

  function isShown(position) {
    return (classFilter.value === "" || samples[position].given === Number(classFilter.value))
      && (stateFilter.value === "" || state(position) === stateFilter.value)
      && (!suspectFilter.checked || samples[position].suspect);
  }

  function isSuspect(position) {
    return samples[position].suspect;
  }

  function shown() {
    return cards.map(function (_, position) { return position; }).filter(isShown);
  }

  // Show the samples that match the filter; select `wanted`, or the next one after it, or the last one.
  function show(wanted) {
    var visible = shown();
    cards.forEach(function (button, position) { button.parentNode.hidden = !isShown(position); });
    if (divider) divider.hidden = !visible.some(isSuspect) || visible.every(isSuspect);
    element("none").hidden = visible.length > 0;
    var later = visible.filter(function (position) { return position >= wanted; });
    select(later.length ? later[0] : visible.length ? visible[visible.length - 1] : -1);
    var counts = { wrong: 0, right: 0, drop: 0, skip: 0 };
    Object.keys(decisions).forEach(function (id) { counts[decisions[id].decision] += 1; });
    var total = counts.wrong + counts.right + counts.drop + counts.skip;
    element("progress").textContent = total + " of " + samples.length + " decided: " + counts.wrong + " wrong, "
      + counts.right + " right, " + (data.canDrop ? counts.drop + " no class, " : "") + counts.skip + " skipped";
    element("download").disabled = total === 0;
  }

  function select(position) {
    if (current >= 0) {
      cards[current].removeAttribute("aria-current");
      cards[current].tabIndex = -1;
    }
    current = position;
    element("panel").hidden = position < 0;
    element("message").textContent = "";
    if (position < 0 || !samples[position].image) zoom(false);
    if (position < 0) return;
    var sample = samples[position], found = decisions[sample.id], button = cards[position];
    button.setAttribute("aria-current", "true");
    button.tabIndex = 0;
    button.focus({ preventScroll: true });
    button.scrollIntoView({ block: "nearest" });
    element("image").hidden = !sample.image;
    if (sample.image) [element("image"), larger.firstChild].forEach(function (image) { setPicture(image, sample); });
    element("given").textContent = element("given").title = classes[sample.given];
    fileName(element("file"), name(sample));
    element("score").textContent = "score " + sample.score.toFixed(3);
    ask(false);
    element("doubt").hidden = !sample.suspect || sample.suggested !== sample.given;
    Array.prototype.forEach.call(labels.options, function (choice) {
      choice.disabled = choice.value === String(sample.given);
    });
    var label = chosen[sample.id];
    if (label === undefined) label = found && found.decision === "wrong" ? found.label : sample.suggested;
    labels.value = label === sample.given ? "" : String(label);
  }

  // Show the selected image over the list, above the panel, so that it can be judged there.
  function zoom(isShown) {
    larger.hidden = !isShown || current < 0 || !samples[current].image;
  }

  // Show the field for the name of a new class in the place of the list of labels.
  function ask(isAsked) {
    other.hidden = !isAsked;
    labels.hidden = isAsked;
    other.value = "";
    if (isAsked) other.focus();
  }

  function addClass() {
    var label = number(other.value), sample = samples[current];
    if (label < 0 || label === sample.given) {
      element("message").textContent = "Enter a class other than the given one, or press Escape.";
      return;
    }
    if (labels.options.length < classes.length + 2) {
      var choice = document.createElement("option");
      choice.value = label;
      choice.textContent = classes[label];
      labels.insertBefore(choice, labels.lastChild);
    }
    chosen[sample.id] = label;
    select(current);
  }

  function decide(decision) {
    if (current < 0) return;
    var sample = samples[current], label = null;
    if (decision === "right") label = sample.given;
    if (decision === "wrong") {
      if (labels.value === OTHER) {
        ask(true);
        return;
      }
      if (labels.value === "") {
        element("message").textContent = "Choose the correct label first.";
        labels.focus();
        return;
      }
      label = Number(labels.value);
    }
    undone.push([current, decisions[sample.id]]);
    decisions[sample.id] = { decision: decision, label: label };
    save();
    mark(current);
    show(current + 1);
  }

  function undo() {
    if (!undone.length) return;
    var last = undone.pop(), id = samples[last[0]].id;
    if (last[1]) decisions[id] = last[1]; else delete decisions[id];
    save();
    mark(last[0]);
    show(last[0]);
  }

  function move(step) {
    var visible = shown(), at = visible.indexOf(current) + step;
    if (current >= 0 && at >= 0 && at < visible.length) select(visible[at]);
  }

  function columns() {
    return getComputedStyle(list).gridTemplateColumns.split(" ").length;
  }

  var actions = {
    w: function () { decide("wrong"); },
    r: function () { decide("right"); },
    d: function () { if (data.canDrop) decide("drop"); },
    s: function () { decide("skip"); },
    z: function () { zoom(larger.hidden); },
    Escape: function () { zoom(false); },
    u: undo,
    l: function () { if (current >= 0) labels.focus(); },
    j: function () { move(1); },
    k: function () { move(-1); },
    ArrowRight: function () { move(1); },
    ArrowLeft: function () { move(-1); },
    ArrowDown: function () { move(columns()); },
    ArrowUp: function () { move(-columns()); }
  };

  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === other) {
      if (event.key === "Enter") addClass();
      if (event.key === "Escape") select(current);
      if (event.key === "Enter" || event.key === "Escape") event.preventDefault();
      return;
    }
    if (event.target instanceof HTMLSelectElement) {
      if (event.target === labels && (event.key === "Enter" || event.key === "Escape")) {
        event.preventDefault();
        cards[current].focus();
      }
      return;
    }
    var pressed = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (!Object.hasOwn(actions, pressed)) return;
    event.preventDefault();
    actions[pressed]();
  });

  // A text that spreadsheets would take for a formula starts with ', as in suspects.csv.
  function cell(value) {
    var text = String(value);
    if (/^[=+\-@\t\r]/.test(text)) text = "'" + text;
    return /[",;\r\n\t]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
  }

  function csv() {
    var rows = [["id", "path", "given", "decision", "label"]];
    samples.forEach(function (sample) {
      var found = decisions[sample.id];
      if (!found) return;
      var label = found.label === null ? "" : classes[found.label];
      rows.push([sample.id, sample.path, classes[sample.given], found.decision, label]);
    });
    return rows.map(function (row) { return row.map(cell).join(",") + "\n"; }).join("");
  }

  function download() {
    var link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
    link.download = "decisions.csv";
    link.click();
    setTimeout(function () { URL.revokeObjectURL(link.href); }, 1000);
  }

  read();
  list.classList.toggle("rows", samples.every(function (sample) { return !sample.image; }));
  var counts = classes.map(function (_, number) {
    return samples.filter(function (sample) { return sample.given === number; }).length;
  });
  option(classFilter, "", "all");
  option(labels, "", "choose a label");
  classes.forEach(function (text, number) {
    if (counts[number]) option(classFilter, number, text + " (" + counts[number] + ")");
    option(labels, number, text);
  });
  if (data.canDrop) option(labels, OTHER, "another class ...");
  var cards = [], divider = null; // between suspects and the others
  samples.forEach(function (sample, position) {
    if (position && samples[position - 1].suspect && !sample.suspect) {
      divider = add(list, "li", "divider", "Below: labels that are not marked as suspect");
    }
    cards.push(card(sample, position));
  });
  element("marked").hidden = !divider;
  cards.forEach(function (_, position) { mark(position); });
  [classFilter, stateFilter, suspectFilter].forEach(function (filter) {
    filter.addEventListener("change", function () {
      show(0);
      filter.focus();
    });
  });
  labels.addEventListener("change", function () {
    if (current >= 0 && labels.value === OTHER) {
      ask(true);
      return;
    }
    if (current >= 0 && labels.value !== "") chosen[samples[current].id] = Number(labels.value);
    element("message").textContent = "";
  });
  Array.prototype.forEach.call(document.querySelectorAll("#actions button"), function (button) {
    button.addEventListener("click", actions[button.dataset.key]);
  });
  element("filters").addEventListener("submit", function (event) { event.preventDefault(); });
  element("download").addEventListener("click", download);
  element("image").addEventListener("click", function () { zoom(larger.hidden); });
  larger.addEventListener("click", function () { zoom(false); });
  if (!data.canDrop) {
    Array.prototype.forEach.call(document.querySelectorAll(".drop"), function (part) { part.remove(); });
  }
  var undecided = samples.findIndex(function (sample) { return !decisions[sample.id]; });
  show(Math.max(0, undecided));
})();
