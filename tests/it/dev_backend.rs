//! dev_backend
