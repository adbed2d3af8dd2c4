"""Why a job has no output: `snapshot` holds what is known of it, `findings` says what is wrong."""
