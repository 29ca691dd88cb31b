"""Plot the buffer purity after each epoch, from the metrics of finished runs: the plot in the README.

python bench/picture.py docs/purity.svg runs/digits-er-ace-... runs/digits-aer-abs-...
"""

import json
import sys
from pathlib import Path
from typing import Any

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 720, 300, 52, 16, 96, 44
COLOURS = ("#c2410c", "#1d4ed8", "#15803d", "#7e22ce")


def epochs(folder: Path) -> list[dict[str, Any]]:
    """Return the metrics of each epoch of a run."""
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [record for record in records if record["event"] == "epoch"]


def x(position: float, count: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * position / count


def y(percent: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (100 - percent) / 60


def text(at: tuple[float, float], words: str, anchor: str = "middle", colour: str = "#444") -> str:
    return f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def plot(folders: list[Path]) -> str:
    """Return an SVG with a line for each run."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for percent in range(40, 101, 20):
        parts.append(f'<path d="M{LEFT} {y(percent):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(text((LEFT - 8, y(percent) + 4), f"{percent} %", "end"))
    runs = {json.loads((f / "result.json").read_text())["method"]: epochs(f) for f in folders}
    for (method, records), colour in zip(runs.items(), COLOURS, strict=False):
        count = len(records)
        points = " ".join(
            f"{x(i + 1, count):.1f},{y(r['buffer']['purity']):.1f}" for i, r in enumerate(records)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        end = (WIDTH - RIGHT + 8, y(records[-1]["buffer"]["purity"]) + 4)
        parts.append(text(end, method, "start", colour))
    tasks = records[-1]["task"] + 1
    for task in range(tasks):
        edge = x(task, tasks)
        parts.append(f'<path d="M{edge:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#bbb" stroke-dasharray="3"/>')
        parts.append(text((x(task + 0.5, tasks), HEIGHT - BOTTOM + 18), f"task {task + 1}"))
    caption = "clean labels in the buffer, after each epoch"
    return "\n".join([*parts, text((x(0.5, 1), HEIGHT - 6), caption), "</svg>", ""])


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    Path(sys.argv[1]).write_text(plot([Path(name) for name in sys.argv[2:]]))
