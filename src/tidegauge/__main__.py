"""`python -m tidegauge` is the program `tidegauge`."""

from tidegauge.cli import main

if __name__ == "__main__":
    main()
