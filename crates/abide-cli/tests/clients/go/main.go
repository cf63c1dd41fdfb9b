// Crawls SITE by the transport, with two goroutines, until SECONDS have passed, each kind once at least: a
// line for each URL.
package main

import (
	"abide"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

func main() {
	seconds, _ := strconv.ParseFloat(os.Getenv("SECONDS"), 64)
	until := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	client := &http.Client{Transport: &abide.Transport{Server: os.Getenv("ABIDE_SERVER")}}
	var crawls sync.WaitGroup
	for _, name := range []string{"go-a", "go-b"} {
		crawls.Add(1)
		go func(name string) {
			defer crawls.Done()
			crawl(client, name, until)
		}(name)
	}
	crawls.Wait()
}

func crawl(client *http.Client, name string, until time.Time) {
	for number := 0; ; number++ {
		for _, kind := range []string{"page", "redirect", "private", "out", "slow", "busy"} {
			if number > 0 && time.Now().After(until) {
				return
			}
			req, _ := http.NewRequest("GET", fmt.Sprintf("%s/%s/%s-%d", os.Getenv("SITE"), kind, name, number), nil)
			req.Header.Set("User-Agent", os.Getenv("ABIDE_USER_AGENT"))
			res, err := client.Do(req)
			var denied *abide.NotGranted
			switch {
			case errors.As(err, &denied):
				fmt.Println(kind, denied.Outcome)
			case err != nil:
				panic(err)
			default:
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
				fmt.Println(kind, res.StatusCode)
			}
		}
	}
}
