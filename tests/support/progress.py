"""A progress bar that shows nothing."""


class Bar:
    def update(self, size):
        pass
