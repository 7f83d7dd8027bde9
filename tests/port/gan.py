"""A generative adversarial net on a ring of Gaussians: two optimisers, detach, labels of ones and zeros."""

import numpy as np

NOISE, BATCH = 4, 32


def data(torch):
    rng = np.random.default_rng(6)
    angle = 2 * np.pi * rng.integers(0, 8, 256) / 8
    points = np.stack([np.cos(angle), np.sin(angle)], 1) + 0.05 * rng.normal(size=(256, 2))
    noise = rng.normal(size=(64, BATCH, NOISE))
    return torch.from_numpy(points.astype(np.float32)), torch.from_numpy(noise.astype(np.float32))


def build(torch):
    nn = torch.nn
    generator = nn.Sequential(nn.Linear(NOISE, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2))
    discriminator = nn.Sequential(
        nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.LayerNorm(32), nn.Linear(32, 32), nn.PReLU(), nn.Linear(32, 1)
    )
    return nn.ModuleDict({"generator": generator, "discriminator": discriminator})


def run(torch, steps, start=None):
    model = build(torch)
    if start is not None:
        model.load_state_dict({name: torch.from_numpy(value) for name, value in start.items()})
    real, noise = data(torch)
    generator, discriminator = model["generator"], model["discriminator"]
    criterion = torch.nn.BCEWithLogitsLoss()
    for_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    for_discriminator = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999), amsgrad=True)
    ones, zeros = torch.ones(BATCH, 1), torch.zeros(BATCH, 1)
    losses = []
    for step in range(steps):
        i = BATCH * (step % 8)
        fake = generator(noise[step % len(noise)])
        discriminator.zero_grad()
        loss_real = criterion(discriminator(real[i : i + BATCH]), ones)
        loss_fake = criterion(discriminator(fake.detach()), zeros)
        (loss_real + loss_fake).backward()
        for_discriminator.step()
        generator.zero_grad()
        loss = criterion(discriminator(fake), ones)
        loss.backward()
        for_generator.step()
        losses += [loss_real.item() + loss_fake.item(), loss.item()]
    return losses
