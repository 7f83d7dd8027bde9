"""Schedulers beside those of diffusers 0.42.1, whose timesteps and results are written down here; beside the library
itself where it is installed.

The network says 0.3 tanh(x) + 0.1 of what it is shown, at every time; six steps of the linear schedule from 1e-4 to 0.02.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import weft
from weft.errors import OptionError
from weft.models import diffusion
from weft.models.diffusion import EulerDiscreteScheduler, FlowMatchEulerDiscreteScheduler, NoiseSchedule

START = [-1.5, -0.5, 0.5, 1.5]
DDIM, DPM, EULER, HEUN = (
    f"{name}Scheduler" for name in ("DDIM", "DPMSolverMultistep", "EulerDiscrete", "HeunDiscrete")
)
#   scheduler, spacing, Karras' levels, prediction, the first timesteps, where START ends
SEEN = (
    (DDIM, "leading", False, "epsilon", [830, 664, 498, 332], [-43.546277, -13.83127, 7.44432, 36.954107]),
    (DDIM, "leading", False, "v_prediction", [830, 664, 498, 332], [-0.89561, -0.335303, 0.110587, 0.649387]),
    (DPM, "linspace", False, "epsilon", [999, 832, 666, 500], [-207.786158, -65.342283, 34.648996, 176.304886]),
    (DPM, "linspace", False, "v_prediction", [999, 832, 666, 500], [-1.004752, -0.368513, 0.140105, 0.749655]),
    (DPM, "leading", False, "epsilon", [852, 710, 568, 426], [-52.337751, -15.909925, 8.36855, 44.389541]),
    (DPM, "leading", False, "v_prediction", [852, 710, 568, 426], [-1.076308, -0.391934, 0.159951, 0.816107]),
    (DPM, "trailing", False, "epsilon", [999, 832, 666, 499], [-207.785518, -65.338793, 34.645542, 176.304255]),
    (DPM, "trailing", False, "v_prediction", [999, 832, 666, 499], [-1.004895, -0.368568, 0.140122, 0.749753]),
    (EULER, "linspace", False, "epsilon", [999, 799.2, 599.4, 399.6], [-208.381163, -68.533248, 37.298173, 176.899701]),
    (EULER, "linspace", False, "v_prediction", [999, 799.2, 599.4, 399.6], [-0.827302, -0.312689, 0.09095, 0.585018]),
    (EULER, "leading", False, "epsilon", [830, 664, 498, 332], [-43.546275, -13.831268, 7.444319, 36.954106]),
    (EULER, "leading", False, "v_prediction", [830, 664, 498, 332], [-0.89561, -0.335303, 0.110587, 0.649387]),
    (EULER, "trailing", False, "v_prediction", [999, 832, 666, 499], [-0.886719, -0.332601, 0.106583, 0.638573]),
    (EULER, "trailing", True, "epsilon", [999, 914.64, 808.59, 666.33], [-207.172823, -64.05919, 34.342281, 175.72002]),
    (
        EULER,
        "trailing",
        True,
        "v_prediction",
        [999, 914.64, 808.59, 666.33],
        [-0.774695, -0.296867, 0.074484, 0.534708],
    ),
    (HEUN, "linspace", False, "epsilon", [999, 799.2, 799.2, 599.4], [-206.505315, -58.026113, 27.633241, 175.02388]),
    (HEUN, "linspace", False, "v_prediction", [999, 799.2, 799.2, 599.4], [-1.551706, -0.554158, 0.278276, 1.233155]),
    (HEUN, "leading", False, "v_prediction", [830, 664, 664, 498], [-1.444086, -0.51663, 0.250481, 1.138699]),
    (HEUN, "trailing", False, "v_prediction", [999, 832, 832, 666], [-1.22143, -0.434377, 0.193116, 0.944705]),
    (HEUN, "linspace", True, "epsilon", [999, 879.51, 879.51, 711.27], [-206.157464, -58.168219, 29.371231, 174.68665]),
)


def said(x):
    return 0.3 * np.tanh(x) + 0.1


def walked(made, tensor):
    """Where START ends, step by step in diffusers' calls: an array"""
    x = tensor(np.array([START])) * float(getattr(made, "init_noise_sigma", 1.0))
    show = getattr(made, "scale_model_input", lambda x, t: x)
    for t in made.timesteps:
        x = made.step(tensor(said(show(x, t).numpy())), t, x).prev_sample
    return x.numpy()[0]


@pytest.mark.parametrize("name, spacing, karras, prediction, times, end", SEEN)
def test_schedulers_end_where_those_of_diffusers_end(name, spacing, karras, prediction, times, end):
    options = {"use_karras_sigmas": True} if karras else {}
    made = getattr(diffusion, name)(prediction_type=prediction, timestep_spacing=spacing, **options)
    made.set_timesteps(6)
    assert np.allclose(made.timesteps.numpy()[:4], times, atol=0.02)
    assert np.allclose(walked(made, weft.tensor), end, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize(
    "shift, times, end",
    [
        (1.0, [1000, 800.2, 600.4, 400.6, 200.8, 1.0], [-1.332493, -0.464878, 0.28408, 1.138218]),
        (3.0, [1000, 923.3425, 818.9233, 668.3267, 432.2251, 8.9286], [-1.33206, -0.464569, 0.281937, 1.136993]),
    ],
)
def test_straight_flows_end_where_those_of_diffusers_end(shift, times, end):
    made = FlowMatchEulerDiscreteScheduler(shift=shift)
    made.set_timesteps(6)
    assert np.allclose(made.timesteps.numpy(), times, atol=1e-3)
    assert np.allclose(walked(made, weft.tensor), end, rtol=1e-5)


def test_straight_flows_take_levels():
    made = FlowMatchEulerDiscreteScheduler(shift=3.0)
    made.set_timesteps(sigmas=np.linspace(1, 1 / 6, 6))
    assert np.allclose(made.timesteps.numpy(), [1000, 937.5, 857.1428, 750, 600, 375], atol=1e-3)
    assert np.allclose(walked(made, weft.tensor), [-1.33226, -0.464725, 0.282967, 1.137501], rtol=1e-5)
    for wrong in ([0.5, 0.7], [2.0, 1.0], [1.0, 0.0], []):
        with pytest.raises(OptionError, match="from 1 to above 0"):
            made.set_timesteps(sigmas=wrong)


def test_noise_of_the_walk_and_of_the_schedule():
    """Real timesteps of a walk have its own σ, also between two steps; whole ones that of the schedule."""
    schedule = NoiseSchedule("linear", 1000)
    made = EulerDiscreteScheduler(schedule)
    made.set_timesteps(6)
    x, noise = weft.zeros(1, 2), weft.ones(1, 2)
    known = schedule.snr.numpy() ** -0.5
    between = 0.8 * known[799] + 0.2 * known[800]  # linear, at 799.2
    assert np.allclose(made.add_noise(x, noise, made.timesteps[1:2]).numpy(), between)
    assert np.allclose(made.add_noise(x, noise, weft.tensor([799])).numpy(), known[799])


#   scheduler, prediction, where START ends from timesteps 900, 400, 100 (of Euler also by their σ)
CHOSEN = (
    (DPM, "epsilon", [-80.741274, -27.663924, 15.499463, 68.576811]),
    (DPM, "v_prediction", [-0.828131, -0.316885, 0.093589, 0.586034]),
    (EULER, "epsilon", [-80.742293, -27.732852, 15.568392, 68.577841]),
    (EULER, "v_prediction", [-0.722116, -0.281051, 0.057596, 0.483647]),
    (HEUN, "epsilon", [-79.905648, -22.989772, 10.825339, 67.741187]),
    (HEUN, "v_prediction", [-5.531056, -1.827156, 1.526075, 5.112035]),
)


@pytest.mark.parametrize("name, prediction, end", CHOSEN)
def test_steps_that_were_chosen_one_by_one(name, prediction, end):
    made = getattr(diffusion, name)(prediction_type=prediction)
    made.set_timesteps(timesteps=[900, 400, 100])
    assert np.allclose(walked(made, weft.tensor), end, rtol=1e-5, atol=2e-5)
    if name == EULER:
        sigmas = made.schedule.snr.numpy()[[900, 400, 100]] ** -0.5
        made.set_timesteps(sigmas=[*sigmas, 0.0])
        assert np.allclose(made.timesteps.numpy(), [900, 400, 100])
        assert np.allclose(walked(made, weft.tensor), end, rtol=1e-5, atol=2e-5)


def test_steps_that_cannot_be_chosen():
    made = EulerDiscreteScheduler("linear", 1000)
    for wrong in ([100, 400], [1000, 3], [5, -1], [], [3.5]):
        with pytest.raises(OptionError, match="each below the one before"):
            made.set_timesteps(timesteps=wrong)
    for options in ({}, {"num_inference_steps": 3, "timesteps": [1]}):
        with pytest.raises(OptionError, match="either"):
            made.set_timesteps(**options)
    with pytest.raises(OptionError, match="one of a number"):
        made.set_timesteps(3, sigmas=[1.0, 0.0])
    with pytest.raises(OptionError, match="the last one 0"):
        made.set_timesteps(sigmas=[2.0, 1.0])
    with pytest.raises(OptionError, match="exclude"):
        EulerDiscreteScheduler("linear", 1000, use_karras_sigmas=True).set_timesteps(timesteps=[5])
    with pytest.raises(OptionError, match="sigmas instead"):
        FlowMatchEulerDiscreteScheduler().set_timesteps(timesteps=[5])
    one = diffusion.DDPM(weft.nn.Identity(), (2,), "linear").scheduler("euler", 1)
    assert one.timesteps.tolist() == [999]


#   variances, spacing, where START ends in six steps; the noise of step i is cos(i + 0 … 3), v predicted
ANCESTRAL = (
    ("fixed_small", "leading", [-0.472934, -0.64911, -0.332325, 0.184877]),
    ("fixed_small", "linspace", [-0.514178, -0.587068, -0.209494, 0.243189]),
    ("fixed_small", "trailing", [-0.637472, -0.342294, 0.155989, 0.401391]),
    ("fixed_large", "leading", [-1.034524, -0.718612, 0.161521, 0.773551]),
    ("fixed_large", "linspace", [-1.104992, -0.590384, 0.378141, 0.873193]),
    ("fixed_large", "trailing", [-0.703458, 0.162615, 0.752736, 0.55040]),
    ("learned_range", "leading", [-0.724552, -0.746337, -0.163507, 0.452561]),
    ("learned_range", "linspace", [-0.751305, -0.650312, 0.000376, 0.502065]),
    ("learned_range", "trailing", [-0.767618, -0.330875, 0.306301, 0.545161]),
)


@pytest.mark.parametrize("variance, spacing, end", ANCESTRAL)
def test_ancestral_steps_end_where_those_of_diffusers_end(variance, spacing, end, monkeypatch):
    """The last step of "trailing" is not at t = 0, so it has noise: that of β where variances are large."""
    made = diffusion.DDPMScheduler(prediction_type="v_prediction", timestep_spacing=spacing, variance_type=variance)
    made.set_timesteps(6)
    drawn = itertools.count()
    monkeypatch.setattr(weft, "randn", lambda *shape, **options: weft.tensor(np.cos(next(drawn) + np.arange(4.0))))
    x = weft.tensor(np.array([[START]]))
    for t in made.timesteps:
        output = said(x.numpy())
        both = np.concatenate([output, 0.5 * np.cos(x.numpy())], 1)  # variances beside
        x = made.step(weft.tensor(both if variance == "learned_range" else output), t, x).prev_sample
    assert np.allclose(x.numpy().ravel(), end, rtol=1e-5, atol=2e-5)


def test_a_model_draws_without_noise_in_the_last_step():
    model = diffusion.DDPM(weft.nn.Identity(), (2,), "linear", variance_type="fixed_large")
    assert model.scheduler("ddpm", 6).timesteps.tolist()[::5] == [999, 0]
    assert model.scheduler("ddpm", 1).timesteps.tolist() == [999]


def test_schedulers_beside_the_library():
    library, torch = pytest.importorskip("diffusers"), pytest.importorskip("torch")
    spacings, predictions = ("linspace", "leading", "trailing"), ("epsilon", "v_prediction", "sample")
    for name, spacing, prediction, steps in itertools.product((DDIM, DPM, EULER, HEUN), spacings, predictions, (5, 20)):
        if name == DDIM and spacing == "linspace":
            continue  # its steps go to t − T // N there, which is not the next timestep
        options = {"prediction_type": prediction, "timestep_spacing": spacing}
        own = {"clip_sample": False} if name == DDIM else {}
        theirs = getattr(library, name)(beta_start=1e-4, beta_end=0.02, **options, **own)
        ours = getattr(diffusion, name)(**options)
        for made in (theirs, ours):
            made.set_timesteps(steps)
        assert np.allclose(ours.timesteps.numpy(), theirs.timesteps.numpy(), atol=1e-3), (name, options)
        found = walked(ours, weft.tensor), walked(theirs, torch.tensor)
        assert np.allclose(*found, rtol=1e-3, atol=1e-4), (name, options, steps)
