*
!pyproject.toml
!README.md
!src
**/__pycache__
