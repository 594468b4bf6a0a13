"""Levels of a distribution: the table, and the drawing."""

import numpy as np
import pytest

from bitstep_lab import level_points


def test_optimal_levels_gain_most_on_heavy_tails():
    points = level_points.distributions()
    assert {len(one) for one in points.values()} == {level_points.POINTS}
    ratios = {name: level_points.variance_ratio(one[:1000], 8) for name, one in points.items()}
    assert min(ratios.values()) >= 1
    assert ratios["uniform"] < 1.1 < ratios["normal"] < ratios["lognormal"]


def test_ratio_by_hand():
    # Levels 0, 1, 2 round 1/2 twice with 1/4, and 2 exactly; optimal ones have no variance left
    # but for the point that is no level: 1/10, between 0 and 1/2.
    points = np.array([0, 0.1, 0.5, 0.5, 2])
    uniform = 0.1 * 0.9 + 2 * 0.25
    assert level_points.variance_ratio(points, 3) == pytest.approx(uniform / (0.1 * 0.4))


@pytest.mark.parametrize(("folder", "message"), [
    ("file", "--out must be a folder, and"), ("file/new", "cannot be made: Not a directory")])
def test_a_folder_that_cannot_be(folder, message, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setattr("sys.argv", ["level_points", "--out", str(tmp_path / folder)])
    with pytest.raises(SystemExit):
        level_points.main()
    assert message in capsys.readouterr().err


def test_drawing(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(level_points, "POINTS", 500)
    monkeypatch.setattr("sys.argv", ["level_points", "--out", str(tmp_path / "new")])
    level_points.main()
    assert capsys.readouterr().out.count("\n|") == 6
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["levels.png",
                                                                          "levels.svg"]
