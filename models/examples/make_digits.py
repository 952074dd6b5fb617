#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the variants of the example application `digits`.

Writes NAME.pt (TorchScript) for each variant into a folder, and the accuracies on
held-out images into variants.json. Also writes labels.txt, and the held-out images and
their digits as heldout.npy and heldout-labels.npy.
"""

import argparse
import gzip
import json
import pathlib
import sys

import numpy
import torch
from torch import nn

HERE = pathlib.Path(__file__).parent
SEED = 7
HELD_OUT = 597


def load_digits():
    """Returns images as rows of 64 numbers from 0 to 16, and their digits."""
    with gzip.open(HERE / "digits" / "digits.csv.gz", "rt") as file:
        table = numpy.loadtxt(file, delimiter=",", dtype=numpy.float32)
    order = numpy.random.RandomState(SEED).permutation(len(table))
    table = table[order]
    return table[:, :64].copy(), table[:, 64].astype(numpy.int64)


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.scores = nn.Linear(64, 10)

    def forward(self, image):
        return self.scores(image / 16)


class Convolutional(nn.Module):
    """Two convolutions, then a matrix; `width` channels in the first."""

    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(2 * width * 16, 10),
        )

    def forward(self, image):
        return self.layers((image / 16).view(-1, 1, 8, 8))


class Ensemble(nn.Module):
    def __init__(self, members):
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, image):
        total = torch.zeros(image.shape[0], 10)
        for member in self.members:
            total = total + torch.log_softmax(member(image), dim=1)
        return total / len(self.members)


def distorted(images, generator):
    """Returns each image slightly rotated, scaled and shifted."""
    n = len(images)
    turn, size = torch.rand(2, n, generator=generator) - 0.5
    shift = 0.3 * (torch.rand(n, 2, generator=generator) - 0.5)
    turn, size = 0.5 * turn, 1 + 0.2 * size
    map_of = torch.stack(
        [
            torch.stack([size * turn.cos(), -turn.sin(), shift[:, 0]], 1),
            torch.stack([turn.sin(), size * turn.cos(), shift[:, 1]], 1),
        ],
        1,
    )
    grid = nn.functional.affine_grid(map_of, (n, 1, 8, 8), align_corners=False)
    image = images.view(n, 1, 8, 8)
    return nn.functional.grid_sample(image, grid, align_corners=False).view(n, 64)


def train(model, images, digits, epochs, seed, distort=False):
    torch.manual_seed(seed)
    for layer in model.modules():
        if hasattr(layer, "reset_parameters"):
            layer.reset_parameters()
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-4)
    slower = torch.optim.lr_scheduler.StepLR(optimiser, int(0.7 * epochs), 0.2)
    model.train()
    for _ in range(epochs):
        for batch in torch.randperm(len(images), generator=generator).split(64):
            shown = images[batch]
            if distort:
                shown = distorted(shown, generator)
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(shown), digits[batch])
            loss.backward()
            optimiser.step()
        slower.step()
    return model.eval()


def make_variants(images, digits):
    """Yields name, description and trained model, cheapest first."""
    yield ("digits-linear", "one matrix", train(Linear(), images, digits, 60, 1))
    yield (
        "digits-small",
        "a small convolutional network",
        train(Convolutional(8), images, digits, 40, 2),
    )
    yield (
        "digits-wide",
        "a wide convolutional network, trained on distorted images",
        train(Convolutional(48), images, digits, 20, 3, distort=True),
    )
    members = [
        train(Convolutional(96), images, digits, 20, seed, distort=True)
        for seed in (4, 5, 6)
    ]
    yield ("digits-ensemble", "three wider ones, averaged", Ensemble(members))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="where to write")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    pixels, digits = load_digits()
    images, targets = torch.from_numpy(pixels), torch.from_numpy(digits)
    numpy.save(folder / "heldout.npy", pixels[:HELD_OUT])
    numpy.save(folder / "heldout-labels.npy", digits[:HELD_OUT])
    (folder / "labels.txt").write_text("".join(f"{d}\n" for d in range(10)))
    variants = []
    for name, description, model in make_variants(
        images[HELD_OUT:], targets[HELD_OUT:]
    ):
        with torch.no_grad():
            guesses = model.eval()(images[:HELD_OUT]).argmax(1)
        accuracy = (guesses == targets[:HELD_OUT]).float().mean().item()
        torch.jit.script(model).save(str(folder / f"{name}.pt"))
        variants.append(
            {"name": name, "description": description, "accuracy": round(accuracy, 4)}
        )
        print(f"  {name}: {100 * accuracy:.1f} % right", file=sys.stderr, flush=True)
    (folder / "variants.json").write_text(json.dumps(variants, indent=2) + "\n")


if __name__ == "__main__":
    main()
