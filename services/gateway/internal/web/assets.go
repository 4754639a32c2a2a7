package web

import (
	"fmt"
	"io/fs"
	"net/http"
	"path"
)

// assets serves scripts and styles. Their names contain their hash, so that browsers never
// revalidate them.
type assets map[string]*encodedContent

// assetTypes has the MIME types of the files that the bundler writes; any other file is an error.
var assetTypes = map[string]string{
	".js":  "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8",
}

func newAssets(files fs.FS) (assets, error) {
	all, err := fs.ReadDir(files, "assets")
	if err != nil {
		return nil, fmt.Errorf("list assets: %w", err)
	}
	a := assets{}
	for _, f := range all {
		ext := path.Ext(f.Name())
		if ext == ".br" || ext == ".gz" {
			continue
		}
		mime, ok := assetTypes[ext]
		if !ok {
			return nil, fmt.Errorf("asset %s is neither a script nor a style", f.Name())
		}
		if a[f.Name()], err = readContent(files, "assets/"+f.Name(), mime); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (a assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, ok := a[path.Base(r.URL.Path)]
	if !ok {
		// During a rollout a page of the other version may request its script. No cache may keep the 404.
		w.Header().Set("Cache-Control", "no-store")
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	c.serve(w, r, http.StatusOK)
}
