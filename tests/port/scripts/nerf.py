import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from portable import reset

img2mse = lambda x, y: torch.mean((x - y) ** 2)
mse2psnr = lambda x: -10. * torch.log(x) / torch.log(torch.Tensor([10.]))


class Embedder:
    def __init__(self, **kwargs):
        self.kwargs = kwargs
        self.create_embedding_fn()

    def create_embedding_fn(self):
        embed_fns = []
        d = self.kwargs['input_dims']
        out_dim = 0
        if self.kwargs['include_input']:
            embed_fns.append(lambda x: x)
            out_dim += d
        max_freq = self.kwargs['max_freq_log2']
        N_freqs = self.kwargs['num_freqs']
        if self.kwargs['log_sampling']:
            freq_bands = 2. ** torch.linspace(0., max_freq, steps=N_freqs)
        else:
            freq_bands = torch.linspace(2. ** 0., 2. ** max_freq, steps=N_freqs)
        for freq in freq_bands:
            for p_fn in self.kwargs['periodic_fns']:
                embed_fns.append(lambda x, p_fn=p_fn, freq=freq: p_fn(x * freq))
                out_dim += d
        self.embed_fns = embed_fns
        self.out_dim = out_dim

    def embed(self, inputs):
        return torch.cat([fn(inputs) for fn in self.embed_fns], -1)


class NeRF(nn.Module):
    def __init__(self, D=3, W=24, input_ch=3, skips=[1]):
        super(NeRF, self).__init__()
        self.input_ch, self.skips = input_ch, skips
        self.pts_linears = nn.ModuleList(
            [nn.Linear(input_ch, W)] + [nn.Linear(W, W) if i not in self.skips else nn.Linear(W + input_ch, W) for i in range(D - 1)])
        self.output_linear = nn.Linear(W, 4)

    def forward(self, x):
        h = x
        for i, l in enumerate(self.pts_linears):
            h = self.pts_linears[i](h)
            h = F.relu(h)
            if i in self.skips:
                h = torch.cat([x, h], -1)
        return self.output_linear(h)


def get_rays(H, W, K, c2w):
    i, j = torch.meshgrid(torch.linspace(0, W - 1, W), torch.linspace(0, H - 1, H), indexing='ij')
    i = i.t()
    j = j.t()
    dirs = torch.stack([(i - K[0][2]) / K[0][0], -(j - K[1][2]) / K[1][1], -torch.ones_like(i)], -1)
    rays_d = torch.sum(dirs[..., np.newaxis, :] * c2w[:3, :3], -1)
    rays_o = c2w[:3, -1].expand(rays_d.shape)
    return rays_o, rays_d


def raw2outputs(raw, z_vals, rays_d):
    raw2alpha = lambda raw, dists, act_fn=F.relu: 1. - torch.exp(-act_fn(raw) * dists)
    dists = z_vals[..., 1:] - z_vals[..., :-1]
    dists = torch.cat([dists, torch.Tensor([1e10]).expand(dists[..., :1].shape)], -1)
    dists = dists * torch.norm(rays_d[..., None, :], dim=-1)
    rgb = torch.sigmoid(raw[..., :3])
    alpha = raw2alpha(raw[..., 3] + 0.1, dists)
    weights = alpha * torch.cumprod(torch.cat([torch.ones((alpha.shape[0], 1)), 1. - alpha + 1e-10], -1), -1)[:, :-1]
    return torch.sum(weights[..., None] * rgb, -2), weights


def sample_pdf(bins, weights, N_samples):
    weights = weights + 1e-5
    pdf = weights / torch.sum(weights, -1, keepdim=True)
    cdf = torch.cumsum(pdf, -1)
    cdf = torch.cat([torch.zeros_like(cdf[..., :1]), cdf], -1)
    u = torch.linspace(0., 1., steps=N_samples)
    u = u.expand(list(cdf.shape[:-1]) + [N_samples]).contiguous()
    inds = torch.searchsorted(cdf, u, right=True)
    below = torch.max(torch.zeros_like(inds - 1), inds - 1)
    above = torch.min((cdf.shape[-1] - 1) * torch.ones_like(inds), inds)
    inds_g = torch.stack([below, above], -1)
    matched_shape = [inds_g.shape[0], inds_g.shape[1], cdf.shape[-1]]
    cdf_g = torch.gather(cdf.unsqueeze(1).expand(matched_shape), 2, inds_g)
    bins_g = torch.gather(bins.unsqueeze(1).expand(matched_shape), 2, inds_g)
    denom = (cdf_g[..., 1] - cdf_g[..., 0])
    denom = torch.where(denom < 1e-5, torch.ones_like(denom), denom)
    t = (u - cdf_g[..., 0]) / denom
    return bins_g[..., 0] + t * (bins_g[..., 1] - bins_g[..., 0])


torch.set_default_tensor_type('torch.FloatTensor')
embedder_obj = Embedder(include_input=True, input_dims=3, max_freq_log2=3, num_freqs=4, log_sampling=True, periodic_fns=[torch.sin, torch.cos])
model = reset(NeRF(input_ch=embedder_obj.out_dim))
optimizer = torch.optim.Adam(params=list(model.parameters()), lr=5e-3, betas=(0.9, 0.999))
H = W = 6
K = np.array([[5., 0, 3.], [0, 5., 3.], [0, 0, 1]])
c2w = torch.Tensor(np.concatenate([np.eye(3), [[0.], [0.], [4.]]], 1))
yy, xx = np.mgrid[:H, :W]
target = torch.Tensor(np.stack([xx / W, yy / H, (xx > 2) * 1.0], -1)).reshape(-1, 3)
rays_o, rays_d = (r.reshape(-1, 3) for r in get_rays(H, W, K, c2w))
history = []
for global_step in range(8):
    t_vals = torch.linspace(0., 1., steps=8)
    z_vals = (2. * (1. - t_vals) + 6. * t_vals).expand([rays_o.shape[0], 8])
    pts = rays_o[..., None, :] + rays_d[..., None, :] * z_vals[..., :, None]
    raw = model(embedder_obj.embed(torch.reshape(pts, [-1, pts.shape[-1]]))).reshape(list(pts.shape[:-1]) + [4])
    rgb, weights = raw2outputs(raw, z_vals, rays_d)
    z_mid = .5 * (z_vals[..., 1:] + z_vals[..., :-1])
    z_fine, _ = torch.sort(torch.cat([z_vals, sample_pdf(z_mid, weights[..., 1:-1], 4).detach()], -1), -1)
    pts = rays_o[..., None, :] + rays_d[..., None, :] * z_fine[..., :, None]
    fine, _ = raw2outputs(model(embedder_obj.embed(pts.view(-1, 3))).view(36, 12, 4), z_fine, rays_d)
    loss = img2mse(fine, target) + img2mse(rgb, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    new_lrate = 5e-3 * (0.1 ** (global_step / 20))
    for param_group in optimizer.param_groups:
        param_group['lr'] = new_lrate
    history += [loss.item(), mse2psnr(loss).item()]
