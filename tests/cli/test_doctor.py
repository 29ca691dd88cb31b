from cli_helpers import Invoke


def test_doctor_shows_versions_and_passes_its_self_test(invoke: Invoke) -> None:
    done = invoke("doctor")
    assert done.code == 0
    for word in (
        "torch",
        "processor",
        "linear algebra",
        "cores",
        "device=auto",
        "precision=auto",
        "channels_last=auto",
        "bitwise identical",
        "self test",
        "ok",
    ):
        assert word in done.out
