"""Push-pull (P3: Gandhi and Iyer, OSDI 2021): the columns of the input are divided, and above the first layer the seeds are."""
