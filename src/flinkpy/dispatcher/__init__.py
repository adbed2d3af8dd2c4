"""The Dispatcher: takes jobs from clients, runs a JobMaster process for each, and keeps their results."""
