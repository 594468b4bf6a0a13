"""Loss against time: pipelines for codes, the same pipeline for floats, and a CPU thread.

Pipelines have a bus of 512 bits at 200 MHz and a memory of 6.5 GB/s (profile `paper`); their time
is counted in clock cycles. The CPU's time is measured on the machine that runs this.
"""

import matplotlib.pyplot as plt
import numpy as np

from bitstep.training.schedules import schedule_steps
from bitstep_lab.races.board_profiles import PROFILES
from bitstep_lab.races.board_runs import run_pipeline
from bitstep_lab.races.contestants import FLOAT, Cpu, Pipeline, Race, Task, scale_rows
from bitstep_lab.races.cpu_runs import run_cpu
from bitstep_lab.races.race import tuned_step
from bitstep_lab.races.race_data import race_data
from bitstep_lab.races.reference import optimum

contestants = [FLOAT, Pipeline(bits=8, encoding="compensated"),
               Pipeline(bits=4, encoding="compensated"), Cpu(method="sgd")]
race = Race(race_data("noisy-100"), "linreg", PROFILES["paper"], contestants, epochs=8)
scaled, targets = scale_rows(race.data.dataset.features)[1], race.targets
least = optimum(scaled, targets, loss=race.kind.loss, l2=0.0)
line = 1.01 * least
step = tuned_step(race, 1, scaled, targets, line)       # for the float pipeline
task = Task(race, schedule_steps(race.schedule, step=step, epochs=race.epochs), 1)

figure, axes = plt.subplots(figsize=(8, 3.8), layout="constrained")
times = {}
for contestant, style in zip(contestants, ("s-", "^-", "o-", "x:"), strict=True):
    found = (run_cpu if isinstance(contestant, Cpu) else run_pipeline)(contestant, task)
    times[contestant.name] = found["seconds"][np.argmax(np.array(found["losses"]) <= line)]
    axes.semilogx(1e6 * np.array(found["seconds"]), 100 * (np.array(found["losses"]) / least - 1),
                  style, markersize=5, label=contestant.name)
    if not isinstance(contestant, Cpu):
        print(f"{contestant.name}: {1e6 * times[contestant.name]:.0f} us to the line, "
              f"{times['float'] / times[contestant.name]:.2f} times as fast as float")
axes.axhline(1, color="black", linewidth=1, label="finishing line")
axes.set(xlabel="microseconds of training, quantizing and transfer not included", ylim=(-0.1, 3),
         ylabel="loss above the optimum in %",
         title="linear regression, noisy-100 (10,000 rows of 100 features), 8 epochs")
axes.set_xticks([100, 200, 500, 1000, 2000, 5000], labels=["100", "200", "500", "1,000", "2,000",
                                                            "5,000"])
axes.minorticks_off()
axes.legend(frameon=False, fontsize=9)
figure.savefig("speedup.png", dpi=130)
