import base64
import io
from pathlib import Path

import torch
from PIL import Image
from report_runs import measured, on_disk, variants
from safetensors.torch import load_file, save_file

from remnant.report.html.gallery import data_uri, galleries, gallery


def test_samples_are_in_the_order_of_classes_with_their_true_labels(tmp_path: Path) -> None:
    (run,) = on_disk(tmp_path, [measured("er")])
    found = gallery("er", run, most=60)
    assert found is not None
    shown = [(thumbnail.observed, thumbnail.truth) for thumbnail in found.thumbnails]
    assert shown == [("zero", None), ("zero", None), ("one", "three"), ("two", None)]
    assert found.about == (
        "All 4 samples at the end, by class; seed 0. Framed: noisy labels, struck out before the true ones."
    )


def test_a_noisy_label_without_a_known_true_class_is_marked(tmp_path: Path) -> None:
    (run,) = on_disk(tmp_path, [measured("er")])
    path = run.folder / "buffer.safetensors"
    save_file(load_file(path) | {"truth": torch.tensor([-1, 0, 1, 0])}, path)
    found = gallery("er", run, most=60)
    assert found is not None
    assert [thumbnail.truth for thumbnail in found.thumbnails] == [None, None, None, "another or none"]


def test_without_true_labels_only_observed_labels_are_shown(tmp_path: Path) -> None:
    (run,) = on_disk(tmp_path, [measured("er")])
    path = run.folder / "buffer.safetensors"
    columns = load_file(path)
    del columns["truth"]
    save_file(columns, path)
    found = gallery("er", run, most=2)
    assert found is not None
    assert [(t.observed, t.truth) for t in found.thumbnails] == [("zero", None), ("one", None)]
    assert found.about == "2 of 4 samples at the end, by class; seed 0. True labels unknown."


def test_inputs_that_are_not_images_and_runs_without_a_buffer_have_no_gallery(tmp_path: Path) -> None:
    skeletons, without = on_disk(tmp_path, [measured("er"), measured("finetune", buffers={})])
    save_file(
        {"x": torch.zeros(4, 3, 8, 8), "y": torch.zeros(4).long()}, skeletons.folder / "buffer.safetensors"
    )
    assert gallery("er", skeletons, most=60) is None
    assert gallery("finetune", without, most=60) is None


def test_many_variants_share_the_images_of_a_page(tmp_path: Path) -> None:
    runs = variants(*on_disk(tmp_path, [measured("er"), measured("aer-abs")]))
    few, many = galleries(runs, of_report=2), galleries(runs, of_report=1000)
    assert [len(found.thumbnails) for found in few] == [4, 4]
    assert [found.title for found in many] == ["er", "aer-abs"]


def test_thumbnails_are_small_images_with_the_pixels_of_the_sample() -> None:
    x = torch.tensor([[[0, 255], [128, 64]]], dtype=torch.uint8)
    assert opened(data_uri(x)).tobytes() == bytes([0, 255, 128, 64])
    assert opened(data_uri(torch.zeros(3, 224, 100, dtype=torch.uint8))).size == (18, 40)


def opened(uri: str) -> Image.Image:
    kind, _, content = uri.partition(",")
    assert kind == "data:image/png;base64"
    return Image.open(io.BytesIO(base64.b64decode(content)))
