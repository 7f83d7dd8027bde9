import os
from abc import ABC, abstractmethod
from collections import OrderedDict

import torch

from . import networks


class BaseModel(ABC):
    def __init__(self, opt):
        self.opt = opt
        self.gpu_ids = opt.gpu_ids
        self.device = torch.device('cuda:{}'.format(self.gpu_ids[0])) if self.gpu_ids else torch.device('cpu')
        self.save_dir = os.path.join(opt.checkpoints_dir, opt.name)
        os.makedirs(self.save_dir, exist_ok=True)
        torch.backends.cudnn.benchmark = True
        self.loss_names, self.model_names, self.optimizers = [], [], []

    @abstractmethod
    def set_input(self, input):
        pass

    @abstractmethod
    def optimize_parameters(self):
        pass

    def setup(self, opt):
        self.schedulers = [networks.get_scheduler(optimizer, opt) for optimizer in self.optimizers]
        self.print_networks()

    def update_learning_rate(self):
        for scheduler in self.schedulers:
            scheduler.step()
        return self.optimizers[0].param_groups[0]['lr']

    def get_current_losses(self):
        errors_ret = OrderedDict()
        for name in self.loss_names:
            if isinstance(name, str):
                errors_ret[name] = float(getattr(self, 'loss_' + name))
        return errors_ret

    def save_networks(self, epoch):
        for name in self.model_names:
            save_path = os.path.join(self.save_dir, '%s_net_%s.pth' % (epoch, name))
            net = getattr(self, 'net' + name)
            torch.save(net.cpu().state_dict(), save_path)

    def load_networks(self, epoch):
        for name in self.model_names:
            net = getattr(self, 'net' + name)
            if isinstance(net, torch.nn.DataParallel):
                net = net.module
            state_dict = torch.load(os.path.join(self.save_dir, '%s_net_%s.pth' % (epoch, name)), map_location=str(self.device))
            if hasattr(state_dict, '_metadata'):
                del state_dict._metadata
            net.load_state_dict(state_dict)

    def print_networks(self):
        for name in self.model_names:
            num_params = 0
            for param in getattr(self, 'net' + name).parameters():
                num_params += param.numel()
            print('[Network %s] Total number of parameters : %.3f M' % (name, num_params / 1e6))

    def set_requires_grad(self, nets, requires_grad=False):
        if not isinstance(nets, list):
            nets = [nets]
        for net in nets:
            if net is not None:
                for param in net.parameters():
                    param.requires_grad = requires_grad
