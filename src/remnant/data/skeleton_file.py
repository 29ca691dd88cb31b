"""Reader of the skeleton files of NTU RGB+D: one text file per recorded action, with all visible bodies.

A file contains the number of frames; for each frame the number of bodies; for each body a line of ten
values, the number of joints, and a line of twelve values per joint, starting with its position in metres.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from remnant.errors import RemnantError
from remnant.settings import read_file

Joints = NDArray[np.float32]

MAX_FRAMES = 300  # further frames of a file are ignored
BODIES = 4  # bodies read per frame; some are false detections of the sensor
KEPT = 2  # bodies kept: those with the largest spread
JOINTS = 25
BODY_VALUES, JOINT_VALUES = 10, 12  # values per line
MAX_DIGITS = 9  # in a number of frames, bodies or joints
MAX_DISTANCE = 65504  # metres from the camera: the largest float16


class _Lines:
    """The lines of a file, read one after another; errors mention the line number."""

    def __init__(self, path: Path) -> None:
        self.path, self.number = path, 0
        try:
            self.lines: Iterator[str] = iter(read_file(path).decode("ascii").splitlines())
        except (OSError, UnicodeDecodeError) as error:
            raise RemnantError(f"{path}: expected a readable text file, found: {error}") from error

    def values(self, count: int, what: str) -> list[str]:
        """Return the values of the next line."""
        self.number += 1
        line = next(self.lines, None)
        values = [] if line is None else line.split()
        if len(values) != count:
            found = "the end of the file" if line is None else repr(line[:60])
            raise self.wrong(f"{what} in {count} value(s)", found)
        return values

    def count(self, what: str) -> int:
        """Return the number in the next line."""
        value = self.values(1, what)[0]
        if not value.isdecimal() or len(value) > MAX_DIGITS:
            raise self.wrong(what, repr(value))
        return int(value)

    def joint(self) -> list[float]:
        """Return the position of the joint in the next line."""
        values = self.values(JOINT_VALUES, "a joint")
        try:
            position = [float(value) for value in values[:3]]
        except ValueError as error:
            raise self.wrong("a joint as numbers", repr(values[:3])) from error
        if not all(abs(part) <= MAX_DISTANCE for part in position):
            raise self.wrong(f"a joint within {MAX_DISTANCE} metres", repr(values[:3]))
        return position

    def end(self) -> None:
        """Raise an error if there is another line."""
        for line in self.lines:
            self.number += 1
            if line.strip():
                raise self.wrong("the end of the file after its last frame", repr(line[:60]))

    def wrong(self, expected: str, found: str) -> RemnantError:
        """Return an error about the line read last."""
        return RemnantError(
            f"{self.path}, line {self.number}: expected {expected}, found {found}. Unpack the file "
            "again, or add its name to the list of excluded samples."
        )


def read_bodies(path: Path, frames: int) -> Joints:
    """Return the joints of the first frames, (BODIES, frames, JOINTS, 3); absent bodies are zero."""
    lines, x = _Lines(path), np.zeros((BODIES, frames, JOINTS, 3), np.float32)
    for frame in range(lines.count("the number of frames")):
        for body in range(lines.count("the number of bodies")):
            lines.values(BODY_VALUES, "a body")
            if (found := lines.count("the number of joints")) != JOINTS:
                raise lines.wrong(f"{JOINTS} joints", str(found))
            positions = [lines.joint() for _ in range(JOINTS)]
            if body < BODIES and frame < frames:
                x[body, frame] = positions
    lines.end()
    if not x.any():
        raise lines.wrong("a body in at least one frame", "none")
    return x


def spread(body: Joints) -> float:
    """Return the spread of a body (T, V, 3): the sum of the standard deviations of x, y and z.

    Frames in which the body is not visible are ignored.
    """
    visible = body[body.any((1, 2))]
    return float(visible.reshape(-1, 3).std(0).sum()) if len(visible) else 0.0


def read_people(path: Path, frames: int) -> Joints:
    """Return the two bodies with the largest spread, largest first: (3, frames, JOINTS, 2).

    The spread is measured over all frames, including those that are cut off.
    """
    bodies = read_bodies(path, max(frames, MAX_FRAMES))
    # The stable sort keeps the order of the file for equal spreads, such as those of absent bodies (0).
    order = np.argsort([-spread(body) for body in bodies], kind="stable")[:KEPT]
    return bodies[order, :frames].transpose(3, 1, 2, 0)
