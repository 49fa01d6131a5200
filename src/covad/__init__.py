"""covad: signal-agnostic searches in a learned latent space, with systematic uncertainties profiled."""

__version__ = "0.1.0"
