"""What went wrong in gateways, case by case: each with a scripted provider of another wire behind."""
