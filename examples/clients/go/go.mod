module abide

go 1.19
