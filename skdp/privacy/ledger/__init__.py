"""What has been spent on a data set, and the cap."""
