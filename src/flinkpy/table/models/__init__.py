"""Providers of models: what ML_PREDICT calls, found by the option `provider` of CREATE MODEL."""
