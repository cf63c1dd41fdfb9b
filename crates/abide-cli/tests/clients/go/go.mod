module crawl

go 1.19

require abide v0.0.0

replace abide => ../../../../../examples/clients/go
