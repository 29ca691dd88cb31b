import gzip
import lzma
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock
from publisher import Server, md5, put, serving, tar, visible

from remnant.data.files import LOCK, DataFiles, check, data_dir, get, locate, prepare, read
from remnant.errors import RemnantError

A, B = b"the content of a", b"the content of b"


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("published")) as server:
        yield server


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("REMNANT_DATA", raising=False)
    return tmp_path / "home" / "remnant" / "toy-py"


@pytest.fixture
def toy(server: Server) -> DataFiles:
    """Two files in one archive."""
    download = server.publish("toy.tar.gz", tar(a=A, b=B), "a", "b", folder="toy-py")
    return DataFiles("toy", {"a": md5(A), "b": md5(B)}, (download,), ("toy-py", "."))


def test_the_option_takes_precedence_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert data_dir(None) is None
    monkeypatch.setenv("REMNANT_DATA", "")
    assert data_dir(None) is None
    monkeypatch.setenv("REMNANT_DATA", "~/data")
    assert data_dir(None) == Path.home() / "data"
    assert data_dir(Path("here")) == Path("here")


@pytest.mark.parametrize("inside", ["toy-py", "."])
def test_the_data_folder_may_be_the_folder_of_the_files_or_its_parent(
    toy: DataFiles, tmp_path: Path, inside: str
) -> None:
    put(tmp_path / inside, a=A, b=B)
    assert read(prepare(toy, tmp_path), "a") == A


def test_missing_files_are_downloaded_into_a_data_folder_with_the_published_name(
    toy: DataFiles, tmp_path: Path
) -> None:
    folder = put(tmp_path / "toy-py", a=A)
    get(toy, folder)
    assert visible(folder) == {"a": A, "b": B}


def test_loading_never_downloads_into_a_chosen_data_folder(
    toy: DataFiles, server: Server, tmp_path: Path
) -> None:
    put(tmp_path / "toy-py", a=A)
    with pytest.raises(RemnantError) as error:
        read(prepare(toy, tmp_path), "b")
    expected = f"{tmp_path}/toy-py/b: expected a file, found nothing; to repair it: "
    assert str(error.value) == f"{expected}remnant data get toy --data-dir {tmp_path}"
    assert server.requests == []


def test_a_changed_file_is_an_error_with_both_hashes_and_its_size(toy: DataFiles, tmp_path: Path) -> None:
    put(tmp_path / "toy-py", a=A[:-1], b=B)
    with pytest.raises(RemnantError) as error:
        read(prepare(toy, tmp_path), "a")
    assert f"toy-py/a: expected md5 {md5(A)}, found {md5(A[:-1])} (15 bytes)" in str(error.value)


def test_a_folder_in_place_of_a_file_is_an_error(toy: DataFiles, tmp_path: Path) -> None:
    (tmp_path / "toy-py" / "a").mkdir(parents=True)
    with pytest.raises(RemnantError, match="a: expected a readable file, found: it is not a regular file"):
        read(prepare(toy, tmp_path), "a")


def test_a_pipe_in_place_of_a_file_is_an_error_and_does_not_block(toy: DataFiles, tmp_path: Path) -> None:
    os.mkfifo(put(tmp_path / "toy-py", b=B) / "a")
    with pytest.raises(RemnantError, match="a: expected a readable file, found: it is not a regular file"):
        read(prepare(toy, tmp_path), "a")


@pytest.mark.parametrize(
    "content",
    [b"", b"no archive", tar(a=A, b=B)[:60], gzip.compress(b"no archive"), lzma.compress(b"x" * 600)[:40]],
    ids=["empty", "text", "truncated", "compressed text", "truncated xz"],
)
def test_a_download_that_is_no_archive_is_an_error(server: Server, tmp_path: Path, content: bytes) -> None:
    download = server.publish("toy.tar.gz", content, "a", folder="toy-py")
    files = DataFiles("toy", {"a": md5(A)}, (download,), ("toy-py", "."))
    with pytest.raises(RemnantError, match=r"toy\.tar\.gz: expected a tar archive, but it cannot"):
        get(files, tmp_path)
    assert visible(tmp_path / "toy-py") == {}


def test_a_folder_with_a_space_is_quoted_in_commands(toy: DataFiles, tmp_path: Path) -> None:
    with pytest.raises(RemnantError, match=r"--data-dir '.*/my data'"):
        read(prepare(toy, tmp_path / "my data"), "a")


def test_the_cache_is_filled_once_and_the_archive_is_removed(
    toy: DataFiles, server: Server, cache: Path
) -> None:
    for _ in range(2):
        place = prepare(toy, None)
        assert (read(place, "a"), read(place, "b")) == (A, B)
    assert visible(cache) == {"a": A, "b": B}
    assert server.requests == ["/toy.tar.gz"]


def test_concurrent_loads_download_once(toy: DataFiles, server: Server) -> None:
    threads = [threading.Thread(target=prepare, args=(toy, None)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.requests == ["/toy.tar.gz"]
    assert not [c for c in check(toy, None) if c.problem]


def test_a_damaged_cache_is_reported_and_get_repairs_it(toy: DataFiles, cache: Path) -> None:
    put(cache, a=b"damaged", b=B)
    with pytest.raises(RemnantError, match=r"a: expected md5 .*to repair it: remnant data get toy$"):
        read(prepare(toy, None), "a")
    get(toy, None)
    assert read(prepare(toy, None), "a") == A


def test_get_replaces_a_damaged_file_and_keeps_an_intact_one(toy: DataFiles, tmp_path: Path) -> None:
    folder = put(tmp_path / "toy-py", a=b"damaged", b=B)
    before = (folder / "b").stat()
    assert get(toy, tmp_path) == f"toy: downloaded a to {folder}"
    assert visible(folder) == {"a": A, "b": B}
    assert (folder / "b").stat().st_ino == before.st_ino


def test_get_downloads_nothing_if_all_files_are_intact(
    toy: DataFiles, server: Server, tmp_path: Path
) -> None:
    folder = put(tmp_path / "toy-py", a=A, b=B)
    expected = f"toy: all 2 files in {folder} match the published ones; nothing to download"
    assert get(toy, tmp_path) == expected
    assert server.requests == []


def test_downloaded_files_are_readable_by_all_users(server: Server, tmp_path: Path) -> None:
    files = DataFiles("toy", {"a": md5(A)}, (server.publish("a", A, "a"),), ("toy",))
    get(files, tmp_path)
    assert (tmp_path / "toy" / "a").stat().st_mode & 0o777 == 0o644


def test_separately_published_files_are_downloaded_separately(server: Server, tmp_path: Path) -> None:
    a, b = gzip.compress(A), gzip.compress(B)
    downloads = (server.publish("a.gz", a, "a.gz"), server.publish("b.gz", b, "b.gz"))
    files = DataFiles("toy", {"a.gz": md5(A), "b.gz": md5(B)}, downloads, ("toy", "."))
    put(tmp_path / "toy").joinpath("a.gz").write_bytes(gzip.compress(A, 1))
    assert get(files, tmp_path) == f"toy: downloaded b.gz to {tmp_path}/toy"
    assert server.requests == ["/b.gz"]
    assert [read(prepare(files, tmp_path), name) for name in files.md5] == [A, B]


def test_files_installed_by_the_operating_system_are_not_downloaded(
    toy: DataFiles, server: Server, tmp_path: Path
) -> None:
    toy = replace(toy, installed=put(tmp_path / "system", a=A, b=B))
    assert read(prepare(toy, None), "a") == A
    assert "nothing to download" in get(toy, None)
    assert server.requests == []


def test_a_chosen_data_folder_takes_precedence_over_installed_files(toy: DataFiles, tmp_path: Path) -> None:
    toy = replace(toy, installed=put(tmp_path / "system", a=A, b=B))
    assert locate(toy, tmp_path / "mine").path == tmp_path / "mine" / "toy-py"


def test_damaged_installed_files_are_downloaded_into_the_cache(
    toy: DataFiles, tmp_path: Path, cache: Path
) -> None:
    system = put(tmp_path / "system", a=b"damaged", b=B)
    toy = replace(toy, installed=system)
    get(toy, None)
    assert visible(system) == {"a": b"damaged", "b": B}
    assert prepare(toy, None).path == cache
    assert visible(cache) == {"a": A, "b": B}


def test_a_download_with_a_wrong_hash_changes_nothing(toy: DataFiles, server: Server, tmp_path: Path) -> None:
    folder = put(tmp_path / "toy-py", a=b"damaged")
    (server.folder / "toy.tar.gz").write_bytes(tar(a=b"other", b=B))
    with pytest.raises(RemnantError, match=r"toy\.tar\.gz: expected the published file") as error:
        get(toy, tmp_path)
    assert toy.downloads[0].md5 in str(error.value)
    assert visible(folder) == {"a": b"damaged"}


def test_an_archive_with_unexpected_content_changes_nothing(
    toy: DataFiles, server: Server, tmp_path: Path
) -> None:
    folder = put(tmp_path / "toy-py", a=b"damaged")
    download = server.publish("other.tar.gz", tar(a=b"other", b=B), "a", "b", folder="toy-py")
    with pytest.raises(RemnantError, match=r"a in http.*other\.tar\.gz: expected md5"):
        get(replace(toy, downloads=(download,)), tmp_path)
    assert visible(folder) == {"a": b"damaged"}


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/toy.tar.gz", "missing"])
def test_a_failed_download_is_an_error_with_instructions_for_a_manual_download(
    toy: DataFiles, server: Server, cache: Path, address: str
) -> None:
    url = f"{server.url}/gone.tar.gz" if address == "missing" else address
    toy = replace(toy, downloads=(replace(toy.downloads[0], url=url),))
    with pytest.raises(RemnantError) as error:
        prepare(toy, None)
    message = str(error.value)
    assert f"could not download {url}" in message
    assert f"put a, b into {cache}" in message
    assert "--data-dir" in message
    assert visible(cache) == {}


def test_a_data_folder_that_is_a_file_is_an_error(toy: DataFiles, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(RemnantError, match="expected a writable folder"):
        get(toy, tmp_path / "file")


def test_check_reports_every_file(toy: DataFiles, tmp_path: Path) -> None:
    put(tmp_path / "toy-py", a=b"damaged")
    a, b = check(toy, tmp_path)
    assert a.problem == f"expected md5 {md5(A)}, found {md5(b'damaged')} (7 bytes)"
    assert (b.problem, b.exists) == ("expected a file, found nothing", False)


def test_a_folder_that_a_killed_download_left_is_removed(toy: DataFiles, cache: Path) -> None:
    (cache / ".download-killed").mkdir(parents=True)
    get(toy, None)
    assert visible(cache) == {"a": A, "b": B}


def test_get_removes_what_a_download_left_that_was_killed_after_its_last_file(
    toy: DataFiles, server: Server, tmp_path: Path
) -> None:
    folder = put(tmp_path / "toy-py", a=A, b=B)
    put(folder / ".download-killed", c=b"rest")
    assert "nothing to download" in get(toy, tmp_path)
    assert not (folder / ".download-killed").exists()
    assert server.requests == []


def test_get_leaves_the_temporary_folder_of_an_active_download_alone(toy: DataFiles, tmp_path: Path) -> None:
    folder = put(tmp_path / "toy-py", a=A, b=B)
    put(folder / ".download-active", c=b"part")
    with FileLock(folder / LOCK):
        assert "nothing to download" in get(toy, tmp_path)
    assert (folder / ".download-active" / "c").exists()


def test_a_temporary_folder_that_cannot_be_removed_is_no_traceback(
    toy: DataFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", path)

    for name in ("unlink", "rmdir", "replace"):
        monkeypatch.setattr(os, name, refuse)
    with pytest.raises(RemnantError, match="Permission denied"):
        get(toy, None)
