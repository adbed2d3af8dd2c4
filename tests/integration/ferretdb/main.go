// A server that speaks MongoDB's protocol and keeps documents in a directory, by SQLite: FerretDB.
//
// Usage: ferretdb DIRECTORY. It prints its URI, and runs until its standard input ends.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/FerretDB/FerretDB/ferretdb"
)

func main() {
	server, err := ferretdb.New(&ferretdb.Config{
		Listener:  ferretdb.ListenerConfig{TCP: "127.0.0.1:0"},
		Handler:   "sqlite",
		SQLiteURL: "file:" + os.Args[1] + "/",
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		// The parent's end closes the pipe, so no server is left behind.
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	go func() { fmt.Println(server.MongoDBURI()) }()
	if err := server.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
