package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/andybalholm/brotli"
)

func (o *output) size() int {
	n := 0
	for _, b := range o.files {
		n += len(b)
	}
	return n
}

// write writes all files to dist, each except the manifest also compressed, and removes all others.
// The manifest is written last: an interrupted build never names a missing file.
func (o *output) write(dist, maps string) error {
	keep := map[string]bool{".keep": true}
	for name, body := range o.files {
		if name == "manifest.json" {
			continue
		}
		packed, err := compress(body)
		if err != nil {
			return fmt.Errorf("compress %s: %w", name, err)
		}
		o.packed += len(packed[".br"])
		packed[""] = body
		for suffix, b := range packed {
			keep[filepath.FromSlash(name+suffix)] = true
			if err := put(filepath.Join(dist, name+suffix), b); err != nil {
				return err
			}
		}
	}
	keep["manifest.json"] = true
	if err := put(filepath.Join(dist, "manifest.json"), o.files["manifest.json"]); err != nil {
		return err
	}
	for name, body := range o.maps {
		if err := put(filepath.Join(maps, name), body); err != nil {
			return err
		}
	}
	return removeOthers(dist, keep)
}

// compress compresses at the best levels, since it runs only once per build.
func compress(body []byte) (map[string][]byte, error) {
	packed := map[string][]byte{}
	for suffix, open := range map[string]func(io.Writer) (io.WriteCloser, error){
		".br": func(w io.Writer) (io.WriteCloser, error) {
			return brotli.NewWriterLevel(w, brotli.BestCompression), nil
		},
		".gz": func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriterLevel(w, gzip.BestCompression) },
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

// put writes a file unless its content is unchanged, so that the go command's cache stays valid.
func put(name string, body []byte) error {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, body) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("make a folder for the pages: %w", err)
	}
	if err := os.WriteFile(name, body, 0o644); err != nil {
		return fmt.Errorf("write the pages: %w", err)
	}
	return nil
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
