"""What the commands `halfpast audit …` do, with the package `halfpast_spark`."""
