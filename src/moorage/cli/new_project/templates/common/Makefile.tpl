# Moorage's image is the base of this image. BUILDER can also be podman or buildah.
IMAGE ?= {{ project }}:0.1.0
BUILDER ?= docker

.PHONY: test fmt image push

test:
	python -m pytest

fmt:
	python -m ruff format .
	python -m ruff check --fix .

image:
	$(BUILDER) build -t $(IMAGE) .

push: image
	$(BUILDER) push $(IMAGE)
