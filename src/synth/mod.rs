//! The log of a training job whose truth is known.
