// Package images builds container images with ko: one per service and one for the simulated
// visitors. Each image is a static program on a base with CA certificates and a non-root user. It
// needs neither Docker nor a registry.
package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"urr.guru/scripts/internal/apt"
	"urr.guru/scripts/internal/files"
	"urr.guru/scripts/internal/tools"
	"urr.guru/scripts/platform"
)

// Registry is the registry in the names of the images; the charts' values contain it too.
const Registry = "urr.local"

// crowd is the package of the simulated visitors, which `helm test` runs.
const crowd = "./scripts/cmd/crowd"

// Builder builds the container images of a checkout.
type Builder struct {
	Layout platform.Layout
	Say    func(format string, args ...any)
}

// Archive returns the path of the file that Build writes. It has all images in the format of docker
// save, which containerd, kind and Docker can load.
func (b Builder) Archive() string { return b.Layout.Shared("images", "urr.tar") }

// Build builds each image as <Registry>/<name>:<tag>, writes the services' bills of materials
// (SPDX) to .urr/images/sbom, and returns the path of the archive. The programs report the tag as
// their version.
func (b Builder) Build(ctx context.Context, tag string) (string, error) {
	if _, err := os.Stat(certificates); err != nil {
		installer := apt.Installer{Log: b.Layout.LogFile("apt"), Say: b.Say}
		if err := installer.Install(ctx, "ca-certificates"); err != nil {
			return "", err
		}
	}
	bin, err := tools.Build(ctx, b.Layout, tools.Images, b.Say, "ko")
	if err != nil {
		return "", err
	}
	b.Say("bundling the pages")
	if err := b.command(ctx, "go", "run", "./scripts/cmd/web").Run(); err != nil {
		return "", fmt.Errorf("bundle the pages: %w", err)
	}
	// If the base is named by its digest, ko looks for it in this folder before it asks a registry.
	cache := b.Layout.Shared("images", "cache")
	digest, err := writeBase(filepath.Join(cache, "img"))
	if err != nil {
		return "", err
	}
	args := []string{
		"build", "--push=false", "--tarball=" + b.Archive(), "--base-import-paths", "--tags=" + tag,
		"--platform=linux/" + runtime.GOARCH, "--ldflags=-s,-w,-X=urr.guru/pkg/telemetry.release=" + tag, "--image-user=" + nonRoot,
		"--sbom=spdx", "--sbom-dir=" + b.Layout.Shared("images", "sbom"),
	}
	packages := []string{crowd}
	for _, s := range platform.Services() {
		packages = append(packages, s.Package)
	}
	b.Say("building %d images", len(packages))
	cmd := b.command(ctx, filepath.Join(bin, "ko"), append(args, packages...)...)
	cmd.Env = append(os.Environ(),
		"KO_DOCKER_REPO="+Registry, "KO_DEFAULTBASEIMAGE="+Registry+"/base@"+digest, "KOCACHE="+cache, "CGO_ENABLED=0")
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("ko: %w", err)
	}
	return b.Archive(), nil
}

// command returns a command that runs in the checkout's root and shows its output to the user.
func (b Builder) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.Layout.Root, os.Stdout, os.Stderr
	return cmd
}

// nonRoot is the user that runs the programs, by number, so that Kubernetes can check it.
const nonRoot = "65532:65532"

// Media types of the OCI image format (github.com/opencontainers/image-spec).
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// imageFile is a file in an image or archive; it is a folder if its name ends with a slash.
type imageFile struct {
	data []byte
	mode int64 // 0: 0644
}

// WriteProgram writes an archive that containerd and Docker can load. It has one image, which
// contains only a static program as its entry point.
func WriteProgram(archive, name, program string) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read the program: %w", err)
	}
	entry := "/" + filepath.Base(program)
	files, _, err := layoutOf(name, map[string]imageFile{"tmp/": {mode: 0o1777}, entry[1:]: {data, 0o755}}, map[string]any{
		"User": nonRoot, "WorkingDir": "/", "Env": []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, "Entrypoint": []string{entry},
	})
	if err != nil {
		return err
	}
	packed, err := packTar(files)
	if err == nil {
		err = os.WriteFile(archive, packed, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write the image %s: %w", name, err)
	}
	return nil
}

// layoutOf returns the files of an OCI image layout and the image's digest. The image has one
// layer; name includes the tag. Equal content gives equal digests.
func layoutOf(name string, content map[string]imageFile, config map[string]any) (files map[string]imageFile, digest string, err error) {
	layer, err := packTar(content)
	if err != nil {
		return nil, "", err
	}
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	_, err = zw.Write(layer)
	if err = errors.Join(err, zw.Close()); err != nil {
		return nil, "", fmt.Errorf("compress the layer: %w", err)
	}
	files = map[string]imageFile{"oci-layout": {data: []byte(`{"imageLayoutVersion":"1.0.0"}`)}}
	encode := func(v any) []byte {
		raw, failed := json.Marshal(v)
		err = errors.Join(err, failed)
		return raw
	}
	blob := func(mediaType string, data []byte) descriptor {
		digest := digestOf(data)
		files[blobPath(digest)] = imageFile{data: data}
		return descriptor{MediaType: mediaType, Digest: digest, Size: len(data)}
	}
	system := map[string]string{"architecture": runtime.GOARCH, "os": "linux"}
	layerBlob := blob(typeLayer, zipped.Bytes())
	configBlob := blob(typeConfig, encode(map[string]any{
		"created": time.Unix(0, 0).UTC(), "architecture": system["architecture"], "os": system["os"], "config": config,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digestOf(layer)}},
	}))
	manifest := blob(typeManifest, encode(map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest, "config": configBlob, "layers": []descriptor{layerBlob},
	}))
	manifest.Platform = system
	if name != "" {
		manifest.Annotations = map[string]string{
			"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name[strings.LastIndexByte(name, ':')+1:],
		}
		// Older versions of Docker need this file for `docker load`.
		files["manifest.json"] = imageFile{data: encode([]map[string]any{{
			"Config": blobPath(configBlob.Digest), "RepoTags": []string{name}, "Layers": []string{blobPath(layerBlob.Digest)},
		}})}
	}
	files["index.json"] = imageFile{data: encode(map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []descriptor{manifest}})}
	return files, manifest.Digest, err
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func blobPath(digest string) string { return "blobs/sha256/" + strings.TrimPrefix(digest, "sha256:") }

// packTar creates a tar archive of files and their parent folders. Its timestamps are fixed, so
// that equal files give equal archives.
func packTar(files map[string]imageFile) ([]byte, error) {
	all := maps.Clone(files)
	for name := range files {
		for dir := path.Dir(strings.TrimSuffix(name, "/")); dir != "."; dir = path.Dir(dir) {
			all[dir+"/"] = imageFile{mode: 0o755}
		}
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(all)) { // in sorted order, a folder precedes its files
		f := all[name]
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: f.mode, Size: int64(len(f.data)), ModTime: time.Unix(0, 0)}
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		} else if f.mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return out.Bytes(), nil
}

// certificates is the path of the CA certificates on the building machine, from Debian's package
// ca-certificates. It is also their path in the image, since Go looks for them there.
const certificates = "/etc/ssl/certs/ca-certificates.crt"

// writeBase writes the base image into dir as an OCI image layout, and returns its digest. The
// image has what a static program needs: CA certificates and a user entry.
func writeBase(dir string) (digest string, err error) {
	bundle, err := os.ReadFile(certificates)
	if err != nil {
		return "", fmt.Errorf("read the certificates: %w", err)
	}
	layout, digest, err := layoutOf("", map[string]imageFile{
		"etc/passwd":        {data: []byte("root:x:0:0::/:/sbin/nologin\nnonroot:x:65532:65532::/:/sbin/nologin\n")},
		"etc/group":         {data: []byte("root:x:0:\nnonroot:x:65532:\n")},
		certificates[1:]:    {data: bundle},
		"etc/nsswitch.conf": {data: []byte("hosts: files dns\n")},
	}, map[string]any{"User": nonRoot, "WorkingDir": "/", "Env": []string{"SSL_CERT_FILE=" + certificates}})
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("clear %s: %w", dir, err)
	}
	for name, f := range layout {
		if err := files.Put(filepath.Join(dir, name), f.data); err != nil {
			return "", err
		}
	}
	return digest, nil
}
