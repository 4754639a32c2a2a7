package config

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/sethvargo/go-envconfig"
)

// FileSuffix is the end of the name of a variable that contains the path of a secret's file, as in
// SESSION_SECRET_FILE=/etc/urr/session.
const FileSuffix = "_FILE"

// maxSecretFile is the largest size of a secret file, in bytes.
const maxSecretFile = 64 << 10

// File is the file that contains a secret X. The variable X_FILE has its path.
type File struct {
	Variable, Path string

	folder bool // the secret is a map, so Path may be a folder with a file for each entry
}

// SecretFiles lists the secret files whose paths the environment sets for a C, in field order.
func SecretFiles[C any]() []File {
	var files []File
	env := envconfig.OsLookuper()
	for _, v := range variablesOf(reflect.TypeFor[C]()) {
		if path, _ := env.Lookup(v.name + FileSuffix); v.isSecret() && path != "" {
			files = append(files, v.file(path))
		}
	}
	return files
}

// SecretContents returns the secrets in c, keyed by environment variable, each in the format of its
// file.
func SecretContents[C any](c *C) map[string]Secret {
	contents := map[string]Secret{}
	for _, v := range variablesOf(reflect.TypeFor[C]()) {
		switch value := reflect.ValueOf(c).Elem().FieldByIndex(v.index).Interface().(type) {
		case Secret:
			contents[v.name] = value
		case map[string]Secret:
			contents[v.name] = joinEntries(value)
		}
	}
	return contents
}

// joinEntries writes a map of secrets as name:secret[,name:secret…], ordered by name.
func joinEntries(entries map[string]Secret) Secret {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		pairs = append(pairs, name+":"+entries[name].Reveal())
	}
	return Secret(strings.Join(pairs, ","))
}

// LatestSecret returns a function that reads a secret's file at each call, for connections that
// authenticate repeatedly. While the file is missing, empty (as when its Secret is deleted and
// created again) or refused by usable, the function returns the last good content; before the first
// good one, and without a path, it returns initial.
func LatestSecret(variable, path string, initial Secret, usable ...func(Secret) bool) func() Secret {
	if path == "" {
		return func() Secret { return initial }
	}
	return latestContent(File{Variable: variable, Path: path}, initial, usable...)
}

// LatestSecrets does for a map of secrets, from a folder with a file for each entry or from one file,
// what LatestSecret does.
func LatestSecrets(variable, path string, initial map[string]Secret, usable func(map[string]Secret) bool) func() map[string]Secret {
	if path == "" {
		return func() map[string]Secret { return initial }
	}
	file := File{Variable: variable, Path: path, folder: true}
	latest := latestContent(file, joinEntries(initial), func(s Secret) bool { return usable(splitEntries(s)) })
	return func() map[string]Secret { return splitEntries(latest()) }
}

// splitEntries reads the text of joinEntries.
func splitEntries(s Secret) map[string]Secret {
	entries := map[string]Secret{}
	for entry := range strings.SplitSeq(s.Reveal(), ",") {
		name, content, _ := strings.Cut(entry, ":")
		entries[strings.TrimSpace(name)] = Secret(content)
	}
	return entries
}

func latestContent(file File, initial Secret, usable ...func(Secret) bool) func() Secret {
	var mu sync.Mutex
	last := initial
	return func() Secret {
		mu.Lock()
		defer mu.Unlock()
		content, err := file.Read()
		unusable := func(check func(Secret) bool) bool { return !check(content) }
		if err == nil && !slices.ContainsFunc(usable, unusable) {
			last = content
		}
		return last
	}
}

// Read returns the content of the file without its final line end. For a folder it returns
// name:content of each file, joined by commas, which is the text form of a map. Errors name the
// variable and the path, never the content.
func (f File) Read() (Secret, error) {
	content, err := f.read()
	if err != nil {
		return "", fmt.Errorf("%s=%q: %w", f.Variable+FileSuffix, f.Path, err)
	}
	return Secret(content), nil
}

func (f File) read() (string, error) {
	if info, err := os.Stat(f.Path); err == nil && info.IsDir() && f.folder {
		return readFolder(f.Path)
	}
	return readFile(f.Path)
}

func readFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", withoutPath(err)
	}
	defer func() { _ = file.Close() }()
	raw, err := io.ReadAll(io.LimitReader(file, maxSecretFile+1))
	content := strings.TrimRight(string(raw), "\r\n")
	switch {
	case err != nil:
		return "", withoutPath(err)
	case len(raw) > maxSecretFile:
		return "", fmt.Errorf("is larger than %d bytes", maxSecretFile)
	case content == "":
		return "", errors.New("is empty")
	}
	return content, nil
}

func readFolder(path string) (string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", withoutPath(err)
	}
	found := map[string]Secret{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") { // Kubernetes keeps the targets of the links in ..data
			continue
		}
		content, err := readFile(filepath.Join(path, e.Name()))
		if err != nil {
			return "", fmt.Errorf("%s: %w", e.Name(), err)
		}
		if strings.Contains(content, ",") {
			return "", fmt.Errorf("%s: must not contain a comma", e.Name())
		}
		found[e.Name()] = Secret(content)
	}
	if len(found) == 0 {
		return "", errors.New("has no files")
	}
	return joinEntries(found).Reveal(), nil
}

// withoutPath removes the path from a file error, since the caller's message contains it.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}
