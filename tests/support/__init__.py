"""What tests share: servers, fakes and factories."""
