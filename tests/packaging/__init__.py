"""What users install: the wheel and the sdist, and the oldest versions of their requirements."""
