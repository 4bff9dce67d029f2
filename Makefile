# Everything that a person does with this repository. Each target does its own set-up in .venv: a machine with
# Python 3.11 or newer, pip, make and a C compiler is enough.

PYTHON ?= python3
VENV   ?= .venv
# What of pyproject.toml the tests' environment has. Where no build of PyTorch is to be had, EXTRAS=test,lint.
EXTRAS ?= test,models,bench,lint
BIN    := $(VENV)/bin
NATIVE := $(wildcard src/legato/runtime/native/*.[ch])
SETUP  := pyproject.toml setup.py $(NATIVE)
SOURCE := src tests tools docs examples setup.py
QUICK  := tests/base tests/arith tests/infer tests/frontend tests/codegen tests/runtime tests/cli tests/test_api.py
export LEGATO_MODELS ?= $(CURDIR)/.models
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Whoever turns bytecode off elsewhere: each process that tests start would compile what it imports again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-page test-ray heavy quick fuzz fuzz-gradients fuzz-language fuzz-passes fuzz-programs fuzz-onnx fuzz-torch fuzz-records torch-opinfo onnx-suite quantised bounds mutants damaged fuzz-import faults survey tvm isa lint sanitize bench bench-torch bench-training bench-pipelines bench-zoo torch-zoo ablation paper wheel models site clean
.DELETE_ON_ERROR:

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(VENV)/.dev ## the environment for development: the package in place, test and lint tools (activate with . .venv/bin/activate)

demo: $(VENV)/.demo ## reads a scanned page with Legato and with ONNX Runtime, side by side; writes out/page.png
	$(BIN)/python -m tools.models --group demo
	$(BIN)/python -m tools.demo

test: lint models ## everything that must pass: lint, then all tests
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-page: $(VENV)/.dev models ## clicks through the page of `legato show --html` in headless Chromium (says what to install): BERT-base opens in under 2 s, 5,000 nodes stay usable, nothing else is loaded
	$(BIN)/python -m tests.viz.browser $(LEGATO_MODELS)/bert_base.onnx

heavy: $(VENV)/.dev models ## the tests that `make test` leaves out: more targets, sizes and samples of what it tests, the largest models interpreted, ThreadSanitizer
	LEGATO_HEAVY=1 $(BIN)/python -m pytest -n 2 --dist worksteal --timeout 0 -m "heavy or sized"

quick: $(VENV)/.dev ## a part of the tests that takes a few minutes and needs no model files
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not models" $(QUICK)

fuzz: $(VENV)/.dev ## FUZZ=2000 random programs for each property of passes, lowering and compiled code
	LEGATO_FUZZ=$(or $(FUZZ),2000) $(BIN)/python -m pytest -n 2 --timeout 0 tests/lower tests/transform -k "programs or compiled_is or alive or meaning or twice or any_order or every_stage"

fuzz-language: $(VENV)/.dev ## FUZZ=10000 random programs over the whole language for each property of inference, evaluation, text, JSON and passes
	LEGATO_FUZZ=$(or $(FUZZ),10000) $(BIN)/python -m pytest -n 2 --timeout 0 tests/programs tests/ir tests/transform -k "language or evaluation or everything or float64 or give_the_module or come_back or refused_or"

fuzz-passes: $(VENV)/.dev ## FUZZ=20000 random programs through random sequences of all passes: well-formed after each, and the meaning kept
	LEGATO_FUZZ=$$(($(or $(FUZZ),20000) / 2)) $(BIN)/python -m pytest -n 2 --timeout 0 tests/transform/test_sequences.py -k "random_sequences"

fuzz-gradients: $(VENV)/.dev ## FUZZ=10000 random programs over the whole language, differentiated: well typed, forward mode = reverse mode, compiled as interpreted, as PyTorch
	LEGATO_FUZZ=$$(($(or $(FUZZ),10000) / 3)) $(BIN)/python -m pytest --tx 2*popen --dist each --timeout 0 tests/autodiff/test_random.py tests/autodiff/test_torch.py -k "random or gradients_are"

fuzz-programs: $(VENV)/.dev ## FUZZ=20000 random programs over the whole language, compiled: as interpreted, and nothing left of any run
	LEGATO_FUZZ=$$(($(or $(FUZZ),20000) / 2)) $(BIN)/python -m pytest --tx 2*popen --dist each --timeout 0 tests/lower/test_whole_programs.py

fuzz-onnx: $(VENV)/.dev ## FUZZ=10000 random ONNX graphs, and as many that compute shapes: compiled as interpreted, and as ONNX Runtime has them
	LEGATO_FUZZ=$(or $(FUZZ),10000) $(BIN)/python -m pytest -n 2 --timeout 0 tests/frontend/onnx/test_random_graphs.py tests/frontend/onnx/test_shape_arithmetic.py

fuzz-torch: $(VENV)/.dev ## FUZZ=2000 random modules of PyTorch (views, writes in place, masks, symbolic dims), exported: as eager has them
	LEGATO_FUZZ=$(or $(FUZZ),2000) $(BIN)/python -m pytest -n 2 --timeout 0 tests/frontend/torch/test_random_modules.py

torch-opinfo: $(VENV)/.dev ## PyTorch's own samples of the core ATen operators: agree, or are refused as tests/frontend/torch/opinfo.toml says
	$(BIN)/python -m tests.frontend.torch.opinfo

fuzz-records: $(VENV)/.dev ## every operator over all its samples, its numbers also as dims that become 0, 1, negative and too large, and its gradient: interpreted, expanded, compiled with every access tested; then for AVX2 and SSE4.2, but for gradients, which are made of the same operators
	LEGATO_FUZZ=1 LEGATO_BOUNDS=1 $(BIN)/python -m pytest -n 2 --dist worksteal --timeout 0 tests/ops/test_records.py
	for level in x86-64-v3 x86-64-v2; do \
	  LEGATO_FUZZ=1 LEGATO_TARGET=$$level $(BIN)/python -m pytest -n 2 --dist worksteal --timeout 0 \
	    tests/ops/test_records.py -k "test_compiled and not gradients or infinite" || exit 1; \
	done

bounds: $(VENV)/.dev models ## all tests once more, and FUZZ=5000 random programs, every access to memory tested when it is made
	LEGATO_HEAVY=1 LEGATO_BOUNDS=1 $(BIN)/python -m pytest -n 2 --dist worksteal --timeout 0
	LEGATO_BOUNDS=1 LEGATO_FUZZ=$$(($(or $(FUZZ),5000) / 2)) \
	  $(BIN)/python -m pytest --tx 2*popen --dist each --timeout 0 tests/lower/test_whole_programs.py

mutants: $(VENV)/.dev ## MUTANTS=100000 damaged programs: each is typed or refused, with an error of its own
	LEGATO_MUTANTS=$(or $(MUTANTS),100000) $(BIN)/python -m pytest -n 2 --timeout 0 tests/errors/test_mutants.py

damaged: $(VENV)/.dev ## FILES=20000 damaged files a kind (ONNX, text, JSON, scripts, artifacts with their checksums made again), COMMANDS=1000 command lines: no crash, no untyped error, 10 s and 2 GB each
	$(BIN)/python -m tests.damaged --files $(or $(FILES),20000) --commands $(or $(COMMANDS),1000) $(DAMAGED)

fuzz-import: $(VENV)/.dev models ## FILES=2000 damaged real models and official cases, imported, checked, some compiled and called: no crash, no untyped error, 10 s and 2 GB each; what goes wrong is made small and kept
	$(BIN)/python -m tests.damaged --kinds model,large,official,rank --files $(or $(FILES),2000) --smaller --out out/fuzz-import $(DAMAGED)

survey: $(VENV)/.dev ## the official ONNX cases without constants, then with a name for every extent: what passes, what is refused and why (SURVEY=--compiled)
	$(BIN)/python -m tests.frontend.onnx.node_survey $(SURVEY)

onnx-suite: $(VENV)/.dev ## every case of the official ONNX suites, as shipped and compiled: what passes, and that the misses are those of tests/frontend/onnx/misses.toml (SUITE=--named: a name for every extent, and named.toml)
	$(BIN)/python -m tests.frontend.onnx.official --json out/onnx-suite.json $(SUITE)

quantised: $(VENV)/.dev models ## models that ONNX Runtime quantises, in three forms, compiled: the decisions of ONNX Runtime (QUANTISED="dqn lstm" for some)
	$(BIN)/python -m tests.frontend.onnx.quantized $(QUANTISED)

tvm: $(VENV)/.dev .venv-tvm/.made ## modules in the spellings of TVM's scripts, in apache-tvm 0.27 (in .venv-tvm) and here: what agrees, and why not (TVM=--update)
	$(BIN)/python -m tests.script.modules.tvm --python .venv-tvm/bin/python $(TVM)

faults: $(VENV)/.dev ## small faults in the sources, each against the tests of its area: the share that they see (FAULTS="--areas infer=2" for some)
	$(BIN)/python -m tools.faults --json out/faults.json $(FAULTS)

isa: $(VENV)/.dev models ## lowering and all models once more, compiled for older processors: AVX2, then SSE4.2
	for level in x86-64-v3 x86-64-v2; do \
	  LEGATO_HEAVY=1 LEGATO_TARGET=$$level $(BIN)/python -m pytest -n 2 --dist worksteal tests/models tests/lower tests/codegen || exit 1; \
	done

lint: $(VENV)/.dev ## style, types, import contracts, file sizes
	$(BIN)/ruff format --check $(SOURCE)
	$(BIN)/ruff check $(SOURCE)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/sz.py

sanitize: $(VENV)/.dev ## the C library under AddressSanitizer, UBSan and ThreadSanitizer: alone (the first two part of test), then called from Python
	LEGATO_HEAVY=1 $(BIN)/python -m pytest tests/runtime/test_native.py -v
	$(BIN)/python -m tools.sanitize address
	$(BIN)/python -m tools.sanitize thread

bench: $(VENV)/.dev models ## every model against ONNX Runtime, OpenVINO and PyTorch; writes the README's table (an hour; BENCH="--only dqn,gru" for some)
	$(BIN)/python -m tools.bench --json docs/benchmarks.json --markdown README.md $(BENCH)

bench-zoo: $(VENV)/.dev .zoo/.made ## 148 architectures, exported, compiled, compared and timed beside ONNX Runtime and OpenVINO; writes docs/zoo.md (BENCH="--only timm.mixers" for some, "--rounds 0": no times)
	$(BIN)/python -m tools.zoo --json docs/zoo.json --markdown docs/zoo.md $(BENCH)

torch-zoo: $(VENV)/.dev .zoo/.made ## 70 of them from PyTorch's modules, ahead of time and through torch.compile, compared with eager, 29 at several sizes; writes docs/pytorch_limits.md (ZOO="--only timm.mixers" for some)
	$(BIN)/python -m tools.zoo.torch --json docs/zoo_torch.json $(ZOO)
	$(BIN)/python -m tools.zoo.torch --json docs/zoo_torch.json --markdown docs/pytorch_limits.md --backend $(ZOO)

ablation: $(VENV)/.dev models ## what each pass, and the assignment of buffer layouts, is worth; writes docs/passes_ablation.md (half an hour; ABLATION="--only dqn,lstm" for some)
	$(BIN)/python -m tools.bench.ablation --json docs/passes_ablation.json --markdown docs/passes_ablation.md \
	  --svg docs/passes_ablation.svg $(ABLATION)

bench-training: $(VENV)/.dev ## one compiled training step against PyTorch, eager and compiled; writes the table of docs/training.md (BENCH="--only lstm" for some)
	$(BIN)/python -m tools.bench.training --json docs/training.json --markdown docs/training.md $(BENCH)

bench-torch: $(VENV)/.dev .zoo/.made ## torch.compile(backend="legato") beside eager and Inductor, first calls too; writes docs/pytorch_backend.md (BENCH="--only bert_base" for some)
	$(BIN)/python -m tools.bench.torch_compile --json docs/torch_compile.json --markdown docs/pytorch_backend.md $(BENCH)

bench-pipelines: $(VENV)/.dev ## pipelines of scikit-learn, LightGBM and XGBoost against ONNX Runtime (ten minutes; BENCH="--only forest" for some)
	$(BIN)/python -m tools.bench.pipelines $(BENCH)

wheel: $(VENV)/.dev ## dist/legato-…-manylinux_2_17_x86_64.whl: the C library built by Zig's compiler for glibc 2.17 and newer
	$(BIN)/python -m pip install --quiet 'ziglang==0.17.0'
	$(BIN)/python -m tools.wheel

test-ray: .venv-ray/.made models ## legato.ray with Ray: 5,000 images while a worker is killed, 1,000 requests at once, how many a second; and docs/scaling.md
	.venv-ray/bin/python -m pytest -q -s tests/ray

paper: $(VENV)/.dev models .venv-tensorflow/.made .venv-mxnet/.made .venv-tvm/.made ## the figures of the Relay paper beside PyTorch, TensorFlow, MXNet, ONNX Runtime, OpenVINO and TVM; writes docs/paper.md (40 minutes; PAPER="--only dqn,lstm" for some)
	$(BIN)/python -m tools.bench --only resnet18,mobilenet_v2,vgg16,dqn,inception_v3,gru,lstm --vs torch,tensorflow,tensorflow-xla,mxnet,onnxruntime,openvino --max-rounds 60 --json docs/paper.json $(PAPER)
	$(BIN)/python -m tools.bench --only resnet18,mobilenet_v2,vgg16,dqn,inception_v3,gru,lstm --vs tvm --rounds 1 --max-rounds 1 --json docs/paper_tvm.json $(PAPER)
	$(BIN)/python -m tools.bench.programs --json docs/paper_programs.json
	$(BIN)/python -m tools.bench.paper --markdown docs/paper.md

models: $(VENV)/.dev ## the model files that tests and benchmarks use, made once, in .models or $$LEGATO_MODELS
	$(BIN)/python -m tools.models

site: .venv-docs/.made ## the documentation as a site, in out/site: a broken link is an error, and no page asks other machines for anything
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet --strict
	.venv-docs/bin/python -m tools.docs_site out/site

clean: ## removes what was built, but not .venv and .models
	rm -rf build dist out src/*.egg-info src/legato/runtime/native/*.so
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	rm -f $(VENV)/.demo $(VENV)/.dev
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

# A venv without pip, filled by the pip that there is, for systems that package ensurepip apart.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("Legato needs Python 3.11 or newer; this is " + sys.version.split()[0] \
	  + ". Name another one: make PYTHON=/path/to/python3") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); $(PYTHON) -m venv --without-pip $(VENV) \
	  && $(PYTHON) -m pip --python $(BIN)/python install pip; }

$(VENV)/.demo: $(SETUP) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[demo]'
	@touch $@

# Other frameworks, each in an environment of its own: what they need excludes each other (MXNet: NumPy before 1.24).
.venv-tvm/.made: WITH = 'apache-tvm==0.27.*' onnx
.venv-tensorflow/.made: WITH = 'tensorflow-cpu==2.21.*'
.venv-mxnet/.made: WITH = 'mxnet==1.9.1' 'numpy==1.23.*'
.venv-tvm/.made .venv-tensorflow/.made .venv-mxnet/.made:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet $(WITH)
	@touch $@

# The site's tools, in an environment of their own: they read the sources, and do not run them.
.venv-docs/.made: pyproject.toml
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet $$(.venv-docs/bin/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"])')
	@touch $@

# Ray, in an environment of its own before that of development: tools/ray_environment.py says why.
.venv-ray/.made: pyproject.toml tools/ray_environment.py | $(VENV)/.dev
	$(BIN)/python -m tools.ray_environment .venv-ray
	@touch $@

# torchvision and timm, in a folder of their own and without dependencies: tools/zoo/packages.py says why.
.zoo/.made: pyproject.toml tools/zoo/packages.py | $(VENV)/.dev
	$(BIN)/python -m tools.zoo.packages
	@touch $@

$(VENV)/.dev: $(SETUP) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[$(EXTRAS)]'
	@touch $@ $(VENV)/.demo
