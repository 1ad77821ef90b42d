# The image is built on that of Moorage; ENGINE may be podman or buildah, too.
IMAGE ?= {{ project }}:0.1.0
ENGINE ?= docker

.PHONY: test fmt image push

test:
	python -m pytest

fmt:
	python -m ruff format .
	python -m ruff check --fix .

image:
	$(ENGINE) build -t $(IMAGE) .

push: image
	$(ENGINE) push $(IMAGE)
