"""The page as a program: `moorage ui`, beside `moorage up`, and in the scheduler."""
