# Every step of CI is a target here. The first use makes the virtual environment .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
# Else each of the processes of the tests compiles all their files, and those of bitstep, anew.
unexport PYTHONDONTWRITEBYTECODE
BOARD ?= ecp5-85

.PHONY: demo test test-slow night test-arm test-pynq test-torch test-torch-slow test-wheel test-oldest sim lint rtl speed
.PHONY: pipelines area wheel release bitstream bitstream-check prove prove-all prove-mutations docs
.PHONY: coverage coverage-rtl coverage-jobs coverage-faults site examples help clean
.DEFAULT_GOAL := demo
, := ,

# Compiling every module doubles the time of an installation. Python compiles what it imports.
INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile
PIP := $(BIN)/python $(INSTALL)

# Debian's names of all that the targets need; README.md has the same line.
PACKAGES := git make g++ perl python3 python3-venv libpython3-dev

# $(call need,COMMAND,WHAT) notes in $$lacks that a command fails; $(refuse) ends with that.
need = $(1) > /dev/null 2>&1 || lacks="$$lacks\n    $(2)";
refuse = if [ -n "$$lacks" ]; then printf "These are missing:$$lacks\n%s\n\n    %s\n\n" \
	"Install them, then run make again. On Debian or Ubuntu:" \
	"sudo apt-get install $(PACKAGES)" >&2; exit 1; fi
NEED_PYTHON := lacks=; [ -x $(BIN)/python ] || { \
	$(call need,$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))',$(PYTHON) of \
	version 3.10 or later) \
	$(call need,$(PYTHON) -c 'import ensurepip$(,) venv',$(PYTHON)'s modules venv and ensurepip) }

$(BIN)/python:
	@$(NEED_PYTHON); $(refuse)
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# Verilator is a program in perl, more than the perl-base that every Debian has.
.PHONY: tools
tools:
	@$(NEED_PYTHON); \
	$(call need,g++ --version,g++) \
	$(call need,$(MAKE) --version,make) \
	$(call need,perl -MFindBin -MPod::Usage -e 1,perl with its modules FindBin and Pod::Usage) \
	$(refuse)

# cocotb loads Python as a shared library.
.PHONY: libpython
libpython: $(VENV)/.stamp
	@lacks=; $(call need,$(BIN)/python -c \
	'import find_libpython; assert find_libpython.find_libpython()',the shared library of \
	$(PYTHON)) \
	$(refuse)

# WITH: more extras. One call of pip is faster than one for each.
$(VENV)/.stamp: pyproject.toml | tools $(BIN)/python
	$(PIP) -e '.[$(subst $() ,$(,),$(strip dev $(WITH)))]'
	@touch $@ $(WITH:%=$@-%)

# A PC with Vivado needs what writes the Verilog, and nothing that simulates or tests.
BITSTREAM_EXTRA := $(if $(filter ecp5%,$(BOARD)),bitstream,hw)

$(VENV)/.stamp-%: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[$*]'
	@touch $@

demo: $(VENV)/.stamp            ## train on two real data sets, on the simulated board
	@mkdir -p build
	$(BIN)/bitstep train diabetes --device sim --bits 4 --encoding compensated --epochs 20 \
		--train-rows 342 --out build/diabetes.npz --report build/diabetes.json \
		--plot build/diabetes.png
	$(BIN)/bitstep train breast_cancer --device sim --model ls-svm --bits 2 --encoding compensated \
		--epochs 20 --train-rows 400 --out build/breast_cancer.npz \
		--report build/breast_cancer.json --plot build/breast_cancer.png
	@echo "Models, reports and loss curves are in build/."

# Each process has a core: threads of OpenBLAS or OpenMP would turn while they wait for another.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

test: libpython                 ## the tests of each change, the cocotb benches among them
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(JOBS)

# Netlists need Yosys.
test-slow: $(VENV)/.stamp $(VENV)/.stamp-bitstream ## the other tests: more widths and buses, others each time; fresh jobs
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(JOBS) -m slow -o faulthandler_timeout=3600

# Each of them ends, whatever became of those before. First what needs more than pip installs, so
# that its absence shows at once; last what takes longest.
NIGHT := test-arm test-wheel test-pynq test-oldest lint test-torch-slow prove-all prove-mutations coverage-rtl \
	coverage-jobs test-slow coverage-faults

night:                          ## all that takes long, with a table at the end; a night
	@$(PYTHON) tests/night.py $(MAKE) $(NIGHT)

sim: libpython                  ## every cocotb bench, with a table of what ran
	$(BIN)/python -m bitstep_sim.benches

test-pynq: $(VENV)/.stamp       ## the device pynq by the real pynq library, 3 versions of it
	$(BIN)/python tests/pynq/environments.py

# torch has an environment of its own: the wheel of a PC with a GPU brings gigabytes.
TORCH_VENV := build/torch

$(TORCH_VENV)/.stamp: pyproject.toml Makefile | $(BIN)/python
	$(BIN)/python -m venv --clear $(TORCH_VENV)
	$(TORCH_VENV)/bin/python $(INSTALL) -e '.[torch]' 'pytest>=9' 'pytest-xdist>=3.6' \
		'matplotlib>=3.8'
	@touch $@

test-torch: $(TORCH_VENV)/.stamp ## the hook for torch's DistributedDataParallel and races, in 1 to 8 processes
	$(TORCH_VENV)/bin/python -m pytest -q -n $(JOBS) --dist loadfile tests/gradients/torch \
		tests/lab/quantized_networks

test-torch-slow: $(TORCH_VENV)/.stamp ## the other tests that need torch
	$(TORCH_VENV)/bin/python -m pytest -q -m slow tests/gradients/torch

test-wheel: | $(BIN)/python     ## the wheel in clean environments, for Python 3.10 to 3.14
	$(BIN)/python tests/wheel/environments.py

test-oldest: $(VENV)/.stamp     ## the tests with Python 3.10 and the oldest versions of packages
	$(ONE_THREAD) $(BIN)/python tests/oldest/environment.py -n $(JOBS)

# ARCH=arm64 takes the 64-bit ARM of PYNQ-ZU and Kria.
ARCH ?= armhf

test-arm: $(VENV)/.stamp        ## what a board needs, on 32-bit ARM by qemu: digests and tests
	$(BIN)/python tests/arm/environments.py --arch $(ARCH)

# TYPED: folders whose types are checked, by default all. Those of tests take half of the time.
lint: $(VENV)/.stamp-lint site       ## ruff, pyright, and the site of the documentation, strict
	$(BIN)/ruff check .
	$(BIN)/pyright $(TYPED)

rtl: $(VENV)/.stamp             ## Verilog of the default pipeline
	@mkdir -p build
	$(BIN)/bitstep rtl --out build/bitstep_top.v

speed: $(VENV)/.stamp           ## speed: cycles per epoch, simulation, quantization, full passes; half an hour
	$(BIN)/python -m bitstep_sim.reports.speed

curves: $(VENV)/.stamp          ## every race of the speedup report, into build/curves
	@mkdir -p build
	$(BIN)/bitstep curves --out build/curves

pipelines: $(VENV)/.stamp       ## latency and cycles of every pipeline; compiles all of them, long
	$(BIN)/python -m bitstep_sim.reports.pipelines

area: $(VENV)/.stamp            ## resources on Zynq-7000 by Yosys; half an hour
	$(PIP) -e '.[bitstream]'
	$(BIN)/python -m bitstep_sim.reports.area

wheel: | $(BIN)/python          ## the package in dist/, for `bitstep deploy`
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps -w dist .

# Bitstreams of the ULX3S are those of bitstreams/, built here before.
release: wheel $(VENV)/.stamp   ## what a release has, in dist/: the wheel, bitstreams, sources for Vivado
	$(BIN)/python -m bitstep_hw.boards release

# A bitstream takes half an hour or more.
bitstream: $(VENV)/.stamp-$(BITSTREAM_EXTRA) ## a board's bitstreams: BOARD=ecp5-85, pynq-z2, ...
	$(BIN)/python -m bitstep_hw.boards $(BOARD)

# The smallest configuration in bitstreams/: 5 minutes of a quiet core.
CHECKED ?= bits=8,lookahead=0,max_features=256,minibatch=False,corrections=False --memory-kib 32

bitstream-check: $(VENV)/.stamp ## that the sources give what bitstreams/ says, for one bitstream
	$(PIP) -e '.[bitstream]'
	$(BIN)/python -m bitstep_hw.boards ecp5-85 --check $(CHECKED)

PROVER := $(VENV)/.stamp $(VENV)/.stamp-formal

prove: $(PROVER)                ## proofs of the RTL, with limits on time; some minutes, seconds if proved before
	$(BIN)/python -m bitstep_sim.proofs --jobs $(JOBS)

prove-all: $(PROVER)            ## all proofs anew, those that take longest among them
	$(BIN)/python -m bitstep_sim.proofs --all --anew --jobs $(JOBS)

prove-mutations: $(PROVER)      ## that each proof breaks by faults in the RTL; some minutes
	$(BIN)/python -m bitstep_sim.proofs --mutations --jobs $(JOBS)

coverage: coverage-rtl coverage-jobs coverage-faults

coverage-rtl: $(VENV)/.stamp    ## lines and toggles of the RTL that the benches reach
	$(BIN)/python -m bitstep_sim.coverage rtl

coverage-jobs: $(VENV)/.stamp   ## configurations and options that the tests of the board run
	$(BIN)/python -m bitstep_sim.coverage jobs

coverage-faults: $(VENV)/.stamp ## which faults in the RTL the tests find; an hour
	$(BIN)/python -m bitstep_sim.coverage faults --jobs $(JOBS)

# Graphviz (Debian: graphviz) is needed for the drawing alone; without it the stored one stays.
docs: $(VENV)/.stamp            ## what is generated in docs/, and the site in build/site
	$(BIN)/python -m bitstep.pipeline.registers > docs/registers.md
	if command -v dot > /dev/null; then dot -Tsvg docs/architecture.dot -o docs/architecture.svg; fi
	$(MAKE) site

examples: $(VENV)/.stamp        ## plots of the gallery, by the scripts in docs/examples
	cd docs/examples && for script in *.py; do \
		MPLBACKEND=Agg ../../$(BIN)/python $$script || exit 1; done
	cd docs/examples && rm -f *.npy *.npz *.csv

# It needs no network once its tools are installed; a warning is an error.
site: $(VENV)/.stamp $(VENV)/.stamp-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

help:                           ## this list
	@awk -F ':.*## *' '/^[a-z-]+:.*##/ { printf "%-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

clean:                          ## remove everything that is generated
	rm -rf build dist $(VENV)
