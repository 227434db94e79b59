"""Delivery: send the report of a day by mail or webhook, each report once to each target."""
