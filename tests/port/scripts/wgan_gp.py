import argparse

import numpy as np
import torch
import torch.autograd as autograd
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Variable

from portable import images, normal, reset

parser = argparse.ArgumentParser()
parser.add_argument("--n_critic", type=int, default=2)
parser.add_argument("--latent_dim", type=int, default=10)
opt = parser.parse_args()
img_shape = (1, 8, 8)
cuda = True if torch.cuda.is_available() else False


class Generator(nn.Module):
    def __init__(self):
        super(Generator, self).__init__()

        def block(in_feat, out_feat, normalize=True):
            layers = [nn.Linear(in_feat, out_feat)]
            if normalize:
                layers.append(nn.BatchNorm1d(out_feat, 0.8))
            layers.append(nn.LeakyReLU(0.2, inplace=True))
            return layers

        self.model = nn.Sequential(*block(opt.latent_dim, 16, normalize=False), *block(16, 32), nn.Linear(32, int(np.prod(img_shape))), nn.Tanh())

    def forward(self, z):
        img = self.model(z)
        img = img.view(img.shape[0], *img_shape)
        return img


class Discriminator(nn.Module):
    def __init__(self):
        super(Discriminator, self).__init__()
        self.model = nn.Sequential(nn.Linear(int(np.prod(img_shape)), 32), nn.LeakyReLU(0.2, inplace=True), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, img):
        img_flat = img.view(img.shape[0], -1)
        return self.model(img_flat)


lambda_gp = 10
generator, discriminator = reset(Generator(), 1), reset(Discriminator(), 2)
optimizer_G = torch.optim.Adam(generator.parameters(), lr=0.002, betas=(0.5, 0.999))
optimizer_D = torch.optim.Adam(discriminator.parameters(), lr=0.002, betas=(0.5, 0.999))
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor


def compute_gradient_penalty(D, real_samples, fake_samples, step):
    alpha = Tensor(np.random.RandomState(step).random_sample((real_samples.size(0), 1, 1, 1)))
    interpolates = (alpha * real_samples + ((1 - alpha) * fake_samples)).requires_grad_(True)
    d_interpolates = D(interpolates)
    fake = Variable(Tensor(real_samples.shape[0], 1).fill_(1.0), requires_grad=False)
    gradients = autograd.grad(outputs=d_interpolates, inputs=interpolates, grad_outputs=fake,
                              create_graph=True, retain_graph=True, only_inputs=True)[0]
    gradients = gradients.view(gradients.size(0), -1)
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


history = []
for i in range(8):
    real_imgs = Variable(images(8, size=8, seed=i)[0].type(Tensor))
    optimizer_D.zero_grad()
    z = Variable(normal(8, opt.latent_dim, seed=i))
    fake_imgs = generator(z)
    real_validity = discriminator(real_imgs)
    fake_validity = discriminator(fake_imgs)
    gradient_penalty = compute_gradient_penalty(discriminator, real_imgs.data, fake_imgs.data, i)
    d_loss = -torch.mean(real_validity) + torch.mean(fake_validity) + lambda_gp * gradient_penalty
    d_loss.backward()
    optimizer_D.step()
    optimizer_G.zero_grad()
    if i % opt.n_critic == 0:
        g_loss = -torch.mean(discriminator(generator(z)))
        g_loss.backward()
        optimizer_G.step()
    history += [d_loss.item(), g_loss.item()]
