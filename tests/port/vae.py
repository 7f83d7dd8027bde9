"""A variational autoencoder with convolutions: reparameterised samples, transposed convolutions, KL in closed form."""

import numpy as np

LATENT = 4


def data(torch):
    """Bright discs at random places on 12 × 12 images, and the noise of every step."""
    rng = np.random.default_rng(5)
    centre = rng.uniform(3, 9, (24, 2, 1, 1))
    grid = np.stack(np.meshgrid(np.arange(12), np.arange(12), indexing="ij"))
    distance = np.sqrt(((grid - centre) ** 2).sum(1))
    images = 1 / (1 + np.exp(2 * (distance - 2.5)))
    noise = rng.normal(size=(64, 24, LATENT))
    return torch.from_numpy(images[:, None].astype(np.float32)), torch.from_numpy(noise.astype(np.float32))


def build(torch):
    nn = torch.nn

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(
                nn.Conv2d(1, 8, 3, stride=2, padding=1),
                nn.LeakyReLU(0.1),
                nn.Conv2d(8, 8, 3, stride=2, padding=1),
                nn.SiLU(),
                nn.Flatten(),
            )
            self.mean = nn.Linear(72, LATENT)
            self.log_variance = nn.Linear(72, LATENT)
            self.decoder = nn.Sequential(
                nn.Linear(LATENT, 72),
                nn.ELU(),
                nn.Unflatten(1, (8, 3, 3)),
                nn.ConvTranspose2d(8, 8, 4, stride=2, padding=1),
                nn.Softplus(),
                nn.ConvTranspose2d(8, 1, 3, stride=2, padding=1, output_padding=1),
            )

        def forward(self, x, noise):
            hidden = self.encoder(x)
            mean, log_variance = self.mean(hidden), self.log_variance(hidden)
            z = mean + torch.exp(0.5 * log_variance) * noise
            return self.decoder(z), mean, log_variance

    return VAE()


def run(torch, steps, start=None):
    model = build(torch)
    if start is not None:
        model.load_state_dict({name: torch.from_numpy(value) for name, value in start.items()})
    x, noise = data(torch)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for step in range(steps):
        logits, mean, log_variance = model(x, noise[step % len(noise)])
        reconstruction = torch.nn.functional.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
        loss = (reconstruction + divergence) / len(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item() / x[0].numel())
    return losses
