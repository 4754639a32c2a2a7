// Package web builds the gateway's web pages for embedding.
package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/andybalholm/brotli"

	"urr.guru/scripts/internal/files"
	"urr.guru/scripts/platform"
)

// Build installs the npm packages if needed, checks the types, bundles the pages, and writes the
// result, with compressed forms, to the folder that the gateway embeds.
func Build(ctx context.Context, layout platform.Layout) error {
	start := time.Now()
	web := filepath.Join(layout.Root, "services/gateway/web")
	dist := filepath.Join(layout.Root, "services/gateway/internal/web/dist")
	if err := install(ctx, web); err != nil {
		return err
	}
	if err := npm(ctx, web, "run", "--silent", "check"); err != nil {
		return fmt.Errorf("check the types: %w", err)
	}
	b, err := bundle(web)
	if err != nil {
		return err
	}
	if err := b.write(dist, layout.Shared("web", "maps")); err != nil {
		return err
	}
	fmt.Printf("pages: %d files, %d KiB (%d KiB by brotli) in %v\n",
		len(b.files), b.size()>>10, b.packed>>10, time.Since(start).Round(10*time.Millisecond))
	return nil
}

// install runs `npm ci` if node_modules is older than the lock file, or missing.
func install(ctx context.Context, web string) error {
	lock, err := os.Stat(filepath.Join(web, "package-lock.json"))
	if err != nil {
		return fmt.Errorf("read the lock file: %w", err)
	}
	// npm writes this file last. If it is missing, an install was interrupted, and it is repeated.
	done, err := os.Stat(filepath.Join(web, "node_modules/.package-lock.json"))
	switch {
	case err == nil && !done.ModTime().Before(lock.ModTime()):
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read the installed packages: %w", err)
	}
	fmt.Println("pages: installing packages")
	if err := npm(ctx, web, "ci", "--no-progress"); err != nil {
		return fmt.Errorf("install packages: %w", err)
	}
	return nil
}

func npm(ctx context.Context, dir string, args ...string) error {
	if _, err := exec.LookPath("npm"); err != nil {
		return errors.New("npm is missing: apt-get install nodejs npm")
	}
	cmd := exec.CommandContext(ctx, "npm", args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

func (o *output) size() int {
	n := 0
	for _, b := range o.files {
		n += len(b)
	}
	return n
}

// write writes all files to dist and, except for the manifest, their compressed forms, and removes
// all other files. It writes the manifest last, so that it never contains a missing file.
func (o *output) write(dist, maps string) error {
	keep := map[string]bool{".keep": true}
	for name, body := range o.files {
		if name == "manifest.json" {
			continue
		}
		packed, err := putPacked(filepath.Join(dist, name), body)
		if err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		o.packed += packed
		for _, suffix := range []string{"", brotliSuffix, gzipSuffix} {
			keep[filepath.FromSlash(name+suffix)] = true
		}
	}
	keep["manifest.json"] = true
	if err := files.Put(filepath.Join(dist, "manifest.json"), o.files["manifest.json"]); err != nil {
		return err
	}
	for name, body := range o.maps {
		if err := files.Put(filepath.Join(maps, name), body); err != nil {
			return err
		}
	}
	return removeOthers(dist, keep)
}

const brotliSuffix, gzipSuffix = ".br", ".gz"

// putPacked writes a file and its compressed forms, and returns the size of the smallest. If the
// file has this content already, it writes nothing, since compressing takes most of a build's time.
// It writes the uncompressed file last, so that an interrupted build is repeated.
func putPacked(name string, body []byte) (size int, err error) {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, body) {
		info, err := os.Stat(name + brotliSuffix)
		_, gzipErr := os.Stat(name + gzipSuffix)
		if err == nil && gzipErr == nil {
			return int(info.Size()), nil
		}
	}
	packed, err := compress(body)
	if err != nil {
		return 0, err
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	for suffix, b := range packed {
		if err := files.Put(name+suffix, b); err != nil {
			return 0, err
		}
	}
	return len(packed[brotliSuffix]), files.Put(name, body)
}

// compress returns the compressed forms of a file, each at its best level.
func compress(body []byte) (map[string][]byte, error) {
	packed := map[string][]byte{}
	for suffix, open := range map[string]func(io.Writer) (io.WriteCloser, error){
		brotliSuffix: func(w io.Writer) (io.WriteCloser, error) {
			return brotli.NewWriterLevel(w, brotli.BestCompression), nil
		},
		gzipSuffix: func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriterLevel(w, gzip.BestCompression) },
	} {
		var b bytes.Buffer
		w, err := open(&b)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(body); err != nil {
			return nil, err
		}
		if err := w.Close(); err != nil {
			return nil, err
		}
		packed[suffix] = b.Bytes()
	}
	return packed, nil
}

func removeOthers(dir string, keep map[string]bool) error {
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || keep[name] {
			return err
		}
		return os.Remove(path)
	})
}
