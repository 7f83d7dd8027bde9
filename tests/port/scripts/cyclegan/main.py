import argparse
import random

from models import create_model
from portable import images

parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
parser.add_argument('--model', type=str, default='cycle_gan')
parser.add_argument('--name', type=str, default='experiment_name')
parser.add_argument('--gpu_ids', type=str, default='-1')
parser.add_argument('--checkpoints_dir', type=str, default='./checkpoints')
parser.add_argument('--lr', type=float, default=0.0005)
parser.add_argument('--epoch_count', type=int, default=1)
parser.add_argument('--n_epochs', type=int, default=1)
parser.add_argument('--n_epochs_decay', type=int, default=2)
opt = parser.parse_args()
opt.gpu_ids = [int(i) for i in opt.gpu_ids.split(',') if int(i) >= 0]
random.seed(0)
model = create_model(opt)
model.setup(opt)
data = images(8, size=12)[0]
history = []
for epoch in range(opt.epoch_count, opt.n_epochs + opt.n_epochs_decay + 1):
    for i in range(2):
        model.set_input({'A': data[2 * i:2 * i + 2], 'B': -data[4 + 2 * i:6 + 2 * i]})
        model.optimize_parameters()
        losses = model.get_current_losses()
        history += list(losses.values())
    model.save_networks('latest')
    model.update_learning_rate()
model.load_networks('latest')
