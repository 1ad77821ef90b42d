__pycache__/
.hypothesis/
.pytest_cache/
.venv/
build/
dist/
