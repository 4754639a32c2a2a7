// Package fetch reads HTTP pages of the platform's processes, such as metrics.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Get returns the body at a URL. A status other than 2xx is an error.
func Get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("GET %s: %s: %s", url, res.Status, body)
	}
	return body, err
}
