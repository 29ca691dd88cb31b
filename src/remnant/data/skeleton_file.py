"""The text files of NTU RGB+D: one for each recorded action, with the joints of everybody in view.

Number of frames; for each frame the number of bodies; for each body a line of ten values, the number of
joints, and a line of twelve values for each joint, of which the first three are its place in metres.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from remnant.errors import RemnantError

Joints = NDArray[np.float32]

LONGEST = 300  # frames of a file that count
BODIES = 4  # at once that are read; the sensor sees ghosts
KEPT = 2  # of which so many are people, the ones that move most
JOINTS = 25
OF_BODY, OF_JOINT = 10, 12  # values in a line
LONG = 9  # digits of a number of frames, bodies or joints
FARTHEST = 65504  # metres from the camera: what 16 bits can hold


class _Lines:
    """The lines of a file in turn; whatever is wrong is said with the number of the line."""

    def __init__(self, path: Path) -> None:
        self.path, self.number = path, 0
        try:
            self.rest: Iterator[str] = iter(path.read_text(encoding="ascii").splitlines())
        except (OSError, UnicodeDecodeError) as error:
            raise RemnantError(f"{path}: expected a readable text file, found: {error}") from error

    def values(self, count: int, what: str) -> list[str]:
        """Return the values of the next line."""
        self.number += 1
        line = next(self.rest, None)
        values = [] if line is None else line.split()
        if len(values) != count:
            found = "the end of the file" if line is None else repr(line[:60])
            raise self.wrong(f"{what} in {count} value(s)", found)
        return values

    def count(self, what: str) -> int:
        """Return the number that the next line is."""
        value = self.values(1, what)[0]
        if not value.isdecimal() or len(value) > LONG:
            raise self.wrong(what, repr(value))
        return int(value)

    def joint(self) -> list[float]:
        """Return the place of the joint in the next line."""
        values = self.values(OF_JOINT, "a joint")
        try:
            place = [float(value) for value in values[:3]]
        except ValueError as error:
            raise self.wrong("a joint in numbers", repr(values[:3])) from error
        if not all(abs(part) <= FARTHEST for part in place):
            raise self.wrong(f"a joint within {FARTHEST} metres", repr(values[:3]))
        return place

    def end(self) -> None:
        """Expect no more lines."""
        for line in self.rest:
            self.number += 1
            if line.strip():
                raise self.wrong("the end of the file after its last frame", repr(line[:60]))

    def wrong(self, expected: str, found: str) -> RemnantError:
        """Return an error for the line that was read last."""
        return RemnantError(
            f"{self.path}, line {self.number}: expected {expected}, found {found}. Unpack the file "
            "anew, or add its name to the list of samples to leave out."
        )


def read_bodies(path: Path, frames: int) -> Joints:
    """Return the joints of the first frames, (BODIES, frames, JOINTS, 3), zero where nobody is seen."""
    lines, x = _Lines(path), np.zeros((BODIES, frames, JOINTS, 3), np.float32)
    for frame in range(lines.count("the number of frames")):
        for body in range(lines.count("the number of bodies")):
            lines.values(OF_BODY, "a body")
            if (found := lines.count("the number of joints")) != JOINTS:
                raise lines.wrong(f"{JOINTS} joints", str(found))
            places = [lines.joint() for _ in range(JOINTS)]
            if body < BODIES and frame < frames:
                x[body, frame] = places
    lines.end()
    if not x.any():
        raise lines.wrong("somebody in one of the frames", "nobody in any")
    return x


def energy(body: Joints) -> float:
    """Return how far the places of a body (T, V, 3) spread: the deviations of x, y and z, added.

    Frames in which it is not seen do not count.
    """
    seen = body[body.any((1, 2))]
    return float(seen.reshape(-1, 3).std(0).sum()) if len(seen) else 0.0


def read_people(path: Path, frames: int) -> Joints:
    """Return the two bodies that spread most, in this order, channels first: (3, frames, JOINTS, 2).

    Who spreads most is judged by all frames, also those that are cut off.
    """
    bodies = read_bodies(path, max(frames, LONGEST))
    # Of equal ones the first: all who are absent have none.
    order = np.argsort([-energy(body) for body in bodies], kind="stable")[:KEPT]
    return bodies[order, :frames].transpose(3, 1, 2, 0)
