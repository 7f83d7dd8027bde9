# Grad-CAM and guided backpropagation by hooks; a trained classifier is looked into
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from portable import images, reset


class FeatureExtractor:
    def __init__(self, model, target_layers):
        self.model, self.activations, self.gradients = model, [], []
        self.handles = []
        for layer in target_layers:
            self.handles.append(layer.register_forward_hook(self.save_activation))
            self.handles.append(layer.register_full_backward_hook(self.save_gradient))

    def save_activation(self, module, input, output):
        self.activations.append(output.detach().cpu())

    def save_gradient(self, module, grad_input, grad_output):
        self.gradients = [grad_output[0].cpu().detach()] + self.gradients

    def __call__(self, x):
        self.activations, self.gradients = [], []
        return self.model(x)

    def release(self):
        for handle in self.handles:
            handle.remove()


class GuidedReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input_img):
        positive_mask = (input_img > 0).type_as(input_img)
        output = torch.addcmul(torch.zeros(input_img.size()).type_as(input_img), input_img, positive_mask)
        ctx.save_for_backward(input_img, output)
        return output

    @staticmethod
    def backward(ctx, grad_output):
        input_img, output = ctx.saved_tensors
        positive_mask_2 = (grad_output > 0).type_as(grad_output)
        return torch.addcmul(torch.zeros(input_img.size()).type_as(input_img), grad_output, (input_img > 0).type_as(grad_output)) * positive_mask_2


class GuidedModule(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return GuidedReLU.apply(x)


def replace_relu(module_top):
    for idx, module in module_top._modules.items():
        replace_relu(module)
        if module.__class__.__name__ == "ReLU":
            module_top._modules[idx] = GuidedModule()


net = reset(nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(8, 4)), scale=1.5)
x, y = images(16, size=8)
optimizer = torch.optim.Adam(net.parameters(), 0.02)
history = []
for _ in range(10):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    history.append(loss.item())

cam = FeatureExtractor(net, [net[3]])
output = cam(x[:2])
target = output[torch.arange(2), y[:2]]
net.zero_grad()
target.sum().backward(retain_graph=True)
weights = cam.gradients[-1].mean(dim=(2, 3), keepdim=True)
heat = F.relu((weights * cam.activations[-1]).sum(1, keepdim=True))
heat = F.interpolate(heat, size=x.shape[-2:], mode="bilinear", align_corners=False)
heat = (heat - heat.amin((2, 3), keepdim=True)) / (heat.amax((2, 3), keepdim=True) + 1e-5)
cam.release()
assert len(net[3]._forward_hooks) == 0
history += heat.mean((1, 2, 3)).tolist()
replace_relu(net)
seen = x[:2].clone().requires_grad_(True)
one_hot = torch.zeros_like(output).scatter_(1, y[:2].unsqueeze(1), 1.0)
(net(seen) * one_hot).sum().backward()
history += seen.grad.abs().mean((1, 2, 3)).tolist()
