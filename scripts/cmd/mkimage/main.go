// Command mkimage packs one static program into a container image, without Docker:
//
//	mkimage pause.tar registry.k8s.io/pause:3.10 bin/pause
//
// Import the result with "ctr -n k8s.io images import" (containerd) or "docker load".
package main

import (
	"fmt"
	"os"

	"urr.guru/scripts/images"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: mkimage ARCHIVE NAME:TAG PROGRAM")
		os.Exit(1)
	}
	if err := images.WriteProgram(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "mkimage:", err)
		os.Exit(1)
	}
}
