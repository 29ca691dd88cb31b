import base64
import dataclasses
import hashlib
import json
import re
from pathlib import Path

import torch
from audit_runs import FILES, HOSTILE, hostile_run

from remnant.report.audit.page import page_data, render, write_audit
from remnant.transforms.vector import VectorTransform


def embedded(page: str) -> dict[str, object]:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return dict(json.loads(text))


def test_the_most_doubtful_samples_are_in_the_page_with_their_images() -> None:
    data = page_data(hostile_run(), most=2)
    assert data["run"] == "hostile-1"
    first, second = data["samples"]
    assert (first["id"], first["given"], first["suggested"], first["score"]) == (0, 0, 1, 0.1)
    assert (second["id"], second["given"], second["suggested"], second["score"]) == (2, 1, 2, 0.12)
    assert first["suspect"]
    assert first["image"].startswith("data:image/png;base64,")


def test_the_page_says_how_many_labels_are_suspect() -> None:
    run = hostile_run()
    assert "All 8 training samples, the most doubtful label first. 4 labels are marked as suspect" in render(
        run
    )
    trusted = tuple(doubt._replace(is_suspect=False) for doubt in run.doubts)
    assert "No label is suspect." in render(dataclasses.replace(run, doubts=trusted))


def test_hostile_names_appear_only_as_json_that_cannot_end_its_element() -> None:
    page = render(hostile_run())
    assert page.count("<script") == 2
    assert page.count("</script>") == 2
    assert "<img src=x" not in page
    assert "<b onclick" not in page
    data = embedded(page)
    assert data["classes"] == list(HOSTILE)
    assert data == json.loads(json.dumps(page_data(hostile_run(), 500)))
    assert {str(sample["path"])[2:] for sample in data["samples"]} == set(FILES)  # type: ignore[attr-defined]


def test_a_hostile_name_of_the_dataset_is_inert() -> None:
    run = hostile_run()
    spec = dataclasses.replace(run.data.spec, name="<script>alert(1)</script>$data")
    page = render(dataclasses.replace(run, data=dataclasses.replace(run.data, spec=spec)))
    assert "<title>Labels of &lt;script&gt;alert(1)&lt;/script&gt;$data</title>" in page


def test_the_page_allows_no_script_but_its_own_and_no_request() -> None:
    page = render(hostile_run())
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
    assert policy in page
    assert not re.search(r"(src|href)=\"?(http|//)", page)


def test_other_data_than_images_have_no_thumbnails() -> None:
    run = hostile_run()
    spec = dataclasses.replace(run.data.spec, shape=(36,), transform=VectorTransform(), dtype=torch.float32)
    data = page_data(dataclasses.replace(run, data=dataclasses.replace(run.data, spec=spec)), 500)
    assert {sample["image"] for sample in data["samples"]} == {""}


def test_names_that_are_not_unicode_can_be_written(tmp_path: Path) -> None:
    run = hostile_run()
    files = ("\udce4.png", *run.data.files[1:])
    write_audit(
        tmp_path / "new" / "audit.html",
        dataclasses.replace(run, data=dataclasses.replace(run.data, files=files)),
    )
    data = embedded((tmp_path / "new" / "audit.html").read_text(encoding="utf-8"))
    assert data["samples"][0]["path"] == "\\udce4.png"  # type: ignore[index]
