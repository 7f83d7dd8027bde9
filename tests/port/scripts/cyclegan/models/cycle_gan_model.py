import itertools

import torch

from portable import reset
from util.image_pool import ImagePool

from . import networks
from .base_model import BaseModel


class CycleGANModel(BaseModel):
    def __init__(self, opt):
        BaseModel.__init__(self, opt)
        self.loss_names = ['D_A', 'G_A', 'cycle_A', 'D_B', 'G_B', 'cycle_B']
        self.model_names = ['G_A', 'G_B', 'D_A', 'D_B']
        norm_layer = networks.get_norm_layer('instance')
        for i, name in enumerate(self.model_names):
            net = (networks.ResnetGenerator if name[0] == 'G' else networks.NLayerDiscriminator)(1, 4, norm_layer)
            networks.init_weights(net)
            setattr(self, 'net' + name, reset(net, i))
        self.fake_A_pool, self.fake_B_pool = ImagePool(3), ImagePool(3)
        self.criterionGAN = networks.GANLoss('lsgan').to(self.device)
        self.criterionCycle = torch.nn.L1Loss()
        self.optimizer_G = torch.optim.Adam(itertools.chain(self.netG_A.parameters(), self.netG_B.parameters()), lr=opt.lr, betas=(0.5, 0.999))
        self.optimizer_D = torch.optim.Adam(itertools.chain(self.netD_A.parameters(), self.netD_B.parameters()), lr=opt.lr, betas=(0.5, 0.999))
        self.optimizers += [self.optimizer_G, self.optimizer_D]

    def set_input(self, input):
        self.real_A, self.real_B = input['A'].to(self.device), input['B'].to(self.device)

    def forward(self):
        self.fake_B = self.netG_A(self.real_A)
        self.rec_A = self.netG_B(self.fake_B)
        self.fake_A = self.netG_B(self.real_B)
        self.rec_B = self.netG_A(self.fake_A)

    def backward_D_basic(self, netD, real, fake):
        loss_D = (self.criterionGAN(netD(real), True) + self.criterionGAN(netD(fake.detach()), False)) * 0.5
        loss_D.backward()
        return loss_D

    def backward_G(self):
        self.loss_G_A = self.criterionGAN(self.netD_A(self.fake_B), True)
        self.loss_G_B = self.criterionGAN(self.netD_B(self.fake_A), True)
        self.loss_cycle_A = self.criterionCycle(self.rec_A, self.real_A) * 10
        self.loss_cycle_B = self.criterionCycle(self.rec_B, self.real_B) * 10
        self.loss_G = self.loss_G_A + self.loss_G_B + self.loss_cycle_A + self.loss_cycle_B
        self.loss_G.backward()

    def optimize_parameters(self):
        self.forward()
        self.set_requires_grad([self.netD_A, self.netD_B], False)
        self.optimizer_G.zero_grad()
        self.backward_G()
        self.optimizer_G.step()
        self.set_requires_grad([self.netD_A, self.netD_B], True)
        self.optimizer_D.zero_grad()
        self.loss_D_A = self.backward_D_basic(self.netD_A, self.real_B, self.fake_B_pool.query(self.fake_B))
        self.loss_D_B = self.backward_D_basic(self.netD_B, self.real_A, self.fake_A_pool.query(self.fake_A))
        self.optimizer_D.step()
