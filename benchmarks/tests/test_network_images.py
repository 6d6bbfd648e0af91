"""Features of images are of each image alone; each model has a line."""

from __future__ import annotations

import numpy as np

from benchmarks import network_images
from benchmarks.network_images import oriented_gradients


def test_features_are_of_each_image_alone_and_of_its_edges():
    images = np.random.default_rng(0).random((4, 784))
    features = oriented_gradients(images)
    assert features.shape == (4, 1296)
    assert np.allclose(oriented_gradients(images[2:3]), features[2:3], atol=1e-6)
    assert np.linalg.norm(features, axis=1).max() <= 6.0 + 1e-5
    assert not oriented_gradients(np.ones((1, 784))).any()
    brighter = oriented_gradients(0.5 * images)
    assert np.allclose(brighter, features, atol=0.05)


def test_every_model_has_a_line(monkeypatch, capsys):
    rng = np.random.default_rng(0)

    def made_up(part):
        return rng.random((10_200, 784), dtype=np.float32), rng.integers(0, 10, 10_200)

    monkeypatch.setattr(network_images, "mnist", made_up)
    asked = ["--rows", "100", "--fits", "2", "--epsilon", "0.1"]
    network_images.main([*asked, "--model", "pixels, linear"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[2].startswith("| zero_out | 0.1 | pixels, linear | 0.")
